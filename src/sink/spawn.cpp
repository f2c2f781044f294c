#include "sink/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fault_point.h"  // and so a build of its own, see the Makefile
#include "sink/serve.h"

#ifdef __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 34)
#define OUTBOX_HAVE_ADDCLOSEFROM 1
#endif
#endif
#ifndef OUTBOX_HAVE_ADDCLOSEFROM
#include <dirent.h>
#include <stdlib.h>
#endif

extern char** environ;

namespace outbox::sink {
namespace {

constexpr int kSocketBuffer = 1 << 20;         // the kernel caps it at net.core.wmem_max
constexpr int kKeptProgram = kSinkSocket + 1;  // the descriptor that a kept program is started by
constexpr int kAboveTheChilds = 16;

constexpr int kToStart = 3;  // descriptors, of which one stays

DescriptorKeeper keeper = {[](int) { return true; }, [](int) {}, [] {}};

struct KeptProgram {
  std::string executable;
  int fd = -1;
  dev_t device = 0;
  ino_t inode = 0;
  bool passed_over = false;
};

std::vector<KeptProgram>& Kept() {
  static auto* kept = new std::vector<KeptProgram>();
  return *kept;
}

// Unless the same file is under its name still: by that it shows in lists of processes.
KeptProgram* ReplacedOf(const std::string& executable) {
  for (KeptProgram& one : Kept()) {
    struct stat there;
    if (one.executable == executable &&
        (stat(executable.c_str(), &there) != 0 || there.st_dev != one.device || there.st_ino != one.inode)) {
      return &one;
    }
  }
  return nullptr;
}

bool IsThere(const std::string& executable) {
  return access(executable.c_str(), F_OK) == 0;
}

class FileActions {
 public:
  FileActions() { posix_spawn_file_actions_init(&actions_); }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

class Attributes {
 public:
  Attributes() { posix_spawnattr_init(&attributes_); }
  ~Attributes() { posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  posix_spawnattr_t* get() { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

int CloseTheRest(posix_spawn_file_actions_t* actions, int from) {
#ifdef OUTBOX_HAVE_ADDCLOSEFROM
  return posix_spawn_file_actions_addclosefrom_np(actions, from);
#else
  int error = 0;
  DIR* directory = opendir("/proc/self/fd");
  if (directory == nullptr) {
    return errno;
  }
  while (const dirent* entry = readdir(directory)) {
    int fd = atoi(entry->d_name);
    if (fd >= from && error == 0) {
      error = posix_spawn_file_actions_addclose(actions, fd);
    }
  }
  closedir(directory);
  return error;
#endif
}

// What a client library may need of this environment: language and time zone, where libraries, certificates and tickets
// are, proxies (OAuth), how the resolver and malloc behave. Nothing else: a server's environment may hold secrets of
// others.
bool Passed(std::string_view entry) {
  static constexpr std::string_view kNames[] = {
      "LANG",        "LANGUAGE",      "TZ",           "TZDIR",        "PATH",        "HOME",       "LD_LIBRARY_PATH",
      "LD_PRELOAD",  "SSL_CERT_FILE", "SSL_CERT_DIR", "OPENSSL_CONF", "KRB5_CONFIG", "KRB5CCNAME", "http_proxy",
      "https_proxy", "HTTPS_PROXY",   "all_proxy",    "ALL_PROXY",    "no_proxy",    "NO_PROXY",   "RES_OPTIONS",
      "LOCALDOMAIN", "GLIBC_TUNABLES"};
  static constexpr std::string_view kPrefixes[] = {"LC_", "MALLOC_"};
  // Variables of test builds and their tools.
  static constexpr std::string_view kTools[] = {
#ifdef OUTBOX_FAULT_POINTS
      "OUTBOX_FAULT_DIR",
#endif
      "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"};
  const std::string_view name = entry.substr(0, entry.find('='));
  auto is = [name](std::string_view other) { return name == other; };
  return std::any_of(std::begin(kNames), std::end(kNames), is) ||
         std::any_of(std::begin(kTools), std::end(kTools), is) ||
         std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

std::vector<char*> Environment() {
  std::vector<char*> kept;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (Passed(*entry)) {
      kept.push_back(*entry);
    }
  }
  kept.push_back(nullptr);
  return kept;
}

// `kept`: the descriptor to start it by; -1: by its name.
int Spawn(const std::string& executable, int kept, int socket, pid_t* pid) {
  FileActions actions;
  Attributes attributes;
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP;
  int error = posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  error = error != 0 ? error : posix_spawn_file_actions_addopen(actions.get(), STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  error = error != 0 ? error : posix_spawn_file_actions_adddup2(actions.get(), socket, kSinkSocket);
  if (kept >= 0 && error == 0) {
    error = posix_spawn_file_actions_adddup2(actions.get(), kept, kKeptProgram);
  }
  error = error != 0 ? error : CloseTheRest(actions.get(), kept >= 0 ? kKeptProgram + 1 : kSinkSocket + 1);
  error = error != 0 ? error : posix_spawnattr_setsigmask(attributes.get(), &none);
  error = error != 0 ? error : posix_spawnattr_setsigdefault(attributes.get(), &all);
  error = error != 0 ? error : posix_spawnattr_setpgroup(attributes.get(), 0);
  error = error != 0 ? error : posix_spawnattr_setflags(attributes.get(), flags);
  if (error != 0) {
    return error;
  }
  std::vector<char*> environment = Environment();
  char* const arguments[] = {const_cast<char*>(executable.c_str()), nullptr};
  const std::string file = kept >= 0 ? "/proc/self/fd/" + std::to_string(kKeptProgram) : executable;
  return posix_spawn(pid, file.c_str(), actions.get(), attributes.get(), arguments, environment.data());
}

// An error of the program, not of what a process needs.
bool IsOfProgram(int error) {
  return error != 0 && error != EAGAIN && error != ENOMEM && error != EMFILE && error != ENFILE;
}

// Of the kept program and the one in its place the one that can be started.
int SpawnEither(const std::string& executable, int socket, pid_t* pid) {
  KeptProgram* replaced = ReplacedOf(executable);
  if (replaced == nullptr || !IsThere(executable)) {
    return Spawn(executable, replaced == nullptr ? -1 : replaced->fd, socket, pid);
  }
  const bool by_name = replaced->passed_over;
  const int error = Spawn(executable, by_name ? -1 : replaced->fd, socket, pid);
  if (!IsOfProgram(error)) {
    return error;
  }
  const int other = Spawn(executable, by_name ? replaced->fd : -1, socket, pid);
  replaced->passed_over = by_name == (other != 0);
  return by_name && other != 0 ? error : other;
}

int Start(const std::string& executable, pid_t* pid, int* socket) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return errno;
  }
  for (int fd : pair) {
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kSocketBuffer, sizeof(kSocketBuffer));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kSocketBuffer, sizeof(kSocketBuffer));
    fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  // Above the descriptors that the child's are moved to, or one would be closed before it is copied.
  int error = 0;
  int child = fcntl(pair[1], F_DUPFD_CLOEXEC, kSinkSocket + 1);
  if (child < 0) {
    error = errno;
  } else {
    error = SpawnEither(executable, child, pid);
    close(child);
  }
  close(pair[1]);
  if (error != 0) {
    close(pair[0]);
    return error;
  }
  *socket = pair[0];
  return 0;
}

}  // namespace

void KeepProgram(const std::string& executable) {
  KeptProgram kept;
  struct stat file;
  const int fd = open(executable.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) {
    return;
  }
  kept.fd = fcntl(fd, F_DUPFD_CLOEXEC, kAboveTheChilds);
  close(fd);
  if (kept.fd < 0 || fstat(kept.fd, &file) != 0) {
    return;
  }
  kept.executable = executable;
  kept.device = file.st_dev;
  kept.inode = file.st_ino;
  Kept().push_back(std::move(kept));
}

bool PassOver(const std::string& executable) {
  KeptProgram* replaced = ReplacedOf(executable);
  if (replaced == nullptr || !IsThere(executable)) {
    return false;
  }
  replaced->passed_over = !replaced->passed_over;
  return true;
}

void SetDescriptorKeeper(const DescriptorKeeper& given) {
  keeper = given;
}

int SpawnSink(const std::string& executable, pid_t* pid, int* socket) {
  if (!keeper.take(kToStart)) {
    return EMFILE;
  }
  int error = Start(executable, pid, socket);
  if (error == EMFILE || error == ENFILE) {
    keeper.make_room();
    error = Start(executable, pid, socket);
  }
  keeper.give_back(error != 0 ? kToStart : kToStart - 1);
  return error;
}

std::string StartErrorText(int error) {
  return std::string(strerror(error)) +
         (error == EMFILE ? ": let processes of the server open more, with ulimit -n for whoever starts it, or "
                            "LimitNOFILE= of its service (and max_files_per_process, where that is lower), and "
                            "restart it"
                          : "");
}

void CloseSinkSocket(int socket) {
  close(socket);
  keeper.give_back(1);
}

}  // namespace outbox::sink
