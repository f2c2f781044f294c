#include "sink/escape.h"

#include "base/fault_point.h"  // and so a build of its own, see the Makefile

#ifdef OUTBOX_FAULT_POINTS

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sink/confine.h"
#include "sink/data_directories.h"

namespace outbox::sink {
namespace {

// `name`: of a file; with an @ before it that of an abstract socket.
bool ConnectTo(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, name.data(), std::min(name.size(), sizeof(address.sun_path) - 1));
  if (name.starts_with('@')) {
    address.sun_path[0] = '\0';
  }
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return fd >= 0 && connect(fd, reinterpret_cast<sockaddr*>(&address),
                            static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())) == 0;
}

// Of each try a word, and whether it was refused.
class Report {
 public:
  explicit Report(std::string text) : text_(std::move(text)) {}
  void Tell(const char* what, bool done) {
    const int why = errno;
    text_ += std::string(" ") + what + " " +
             (done                                                   ? "done"
              : why == EPERM || why == EACCES || why == EAFNOSUPPORT ? "refused"
                                                                     : strerror(why));
  }
  void Say(const char* what) { text_ += what; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Headers of the oldest system supported for builds do not have them.
constexpr long kPidfdOpen = 434;
constexpr long kProcessMadvise = 440;
constexpr long kProcessMrelease = 448;
constexpr long kFchmodat2 = 452;
constexpr int kSchedCore = 62;

bool Forks(unsigned long flags) {
  const long child = syscall(SYS_clone, flags | SIGCHLD, 0L, 0L, 0L, 0L);
  if (child == 0) {
    _exit(0);
  }
  return child > 0 && waitpid(static_cast<pid_t>(child), nullptr, 0) == child;
}

// Another process of the same user. The mild first: what kills it ends the tries.
void TryOnProcess(pid_t victim, Report* report) {
  const rlimit64 limit{0, RLIM64_INFINITY};
  rlimit64 was{};
  report->Tell("limit", syscall(SYS_prlimit64, victim, RLIMIT_FSIZE, &limit, nullptr) == 0);
  report->Tell("limits", syscall(SYS_prlimit64, victim, RLIMIT_FSIZE, nullptr, &was) == 0);
  report->Tell("nice", setpriority(PRIO_PROCESS, static_cast<id_t>(victim), 7) == 0);
  report->Tell("group", setpriority(PRIO_PGRP, static_cast<id_t>(getpgid(victim)), 8) == 0);
  report->Tell("user", setpriority(PRIO_USER, UINT_MAX - 1, 9) == 0);  // nobody's: others work on this machine
  const sched_param priority{};
  report->Tell("scheduler", sched_setscheduler(victim, SCHED_BATCH, &priority) == 0);
  report->Tell("parameters", sched_setparam(victim, &priority) == 0);
  const uint32_t attributes[12] = {sizeof(attributes), SCHED_BATCH};
  report->Tell("attributes", syscall(SYS_sched_setattr, victim, attributes, 0) == 0);
  cpu_set_t processors;
  CPU_ZERO(&processors);
  CPU_SET(0, &processors);
  report->Tell("affinity", sched_setaffinity(victim, sizeof(processors), &processors) == 0);
  report->Tell("io", syscall(SYS_ioprio_set, 1, victim, 3 << 13) == 0);
  report->Tell("core", prctl(kSchedCore, 0, victim, 0, &was) == 0);
  unsigned long nodes = 1;
  report->Tell("migrate", syscall(SYS_migrate_pages, victim, 2L, &nodes, &nodes) >= 0);
  report->Tell("move", syscall(SYS_move_pages, victim, 0L, nullptr, nullptr, nullptr, 0) == 0);
  void* head = nullptr;
  size_t length = 0;
  report->Tell("robust", syscall(SYS_get_robust_list, victim, &head, &length) == 0);
  report->Tell("pidfd", syscall(kPidfdOpen, victim, 0) >= 0);
  report->Tell("advise", syscall(kProcessMadvise, -1, nullptr, 0L, 0, 0) == 0);
  report->Tell("release", syscall(kProcessMrelease, -1, 0) == 0);
#ifdef __x86_64__
  report->Tell("x32", syscall(0x40000000 + SYS_tkill, victim, 0) == 0);
#endif
  report->Tell("fork", Forks(0));
  report->Tell("namespace", Forks(CLONE_NEWUSER));
  report->Tell("keys", syscall(SYS_keyctl, 0 /* whose id is */, -4 /* the user's own */, 1) >= 0);
  report->Tell("semaphores", semget(IPC_PRIVATE, 0, 0) >= 0);
  report->Tell("messages", syscall(SYS_msgget, 1, 0) >= 0);
  report->Tell("queue", syscall(SYS_mq_open, "outbox", O_RDONLY) >= 0);
  int pair[2] = {-1, -1};
  [[maybe_unused]] const int made = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
  report->Tell("lease", fcntl(pair[0], F_SETLEASE, F_RDLCK) == 0);
  report->Tell("notify", fcntl(pair[0], F_NOTIFY, DN_MODIFY) == 0);
  report->Tell("keystroke", ioctl(pair[0], TIOCSTI, "") == 0);
  const f_owner_ex owner{F_OWNER_PID, victim};
  int owning = victim;
  report->Tell("asynchronous", fcntl(pair[0], F_SETFL, O_ASYNC | O_NONBLOCK) == 0);
  report->Tell("FIOASYNC", ioctl(pair[0], FIOASYNC, &pair[1]) == 0);
  report->Tell("F_SETSIG", fcntl(pair[0], F_SETSIG, SIGKILL) == 0);
  report->Tell("F_SETOWN", fcntl(pair[0], F_SETOWN, victim) == 0);
  report->Tell("F_SETOWN_EX", fcntl(pair[0], F_SETOWN_EX, &owner) == 0);
  report->Tell("FIOSETOWN", ioctl(pair[0], FIOSETOWN, &owning) == 0);
  report->Tell("SIOCSPGRP", ioctl(pair[0], SIOCSPGRP, &owning) == 0);
  [[maybe_unused]] const ssize_t written = write(pair[1], "", 1);
  close(pair[0]);
  close(pair[1]);
  report->Tell("tkill", syscall(SYS_tkill, victim, SIGKILL) == 0);
  const int environment = open(("/proc/" + std::to_string(victim) + "/environ").c_str(), O_RDONLY | O_CLOEXEC);
  report->Tell("environment", environment >= 0);
}

// A file, under a name that may not be opened: what landlock does not ask about, or did not in its first versions.
// `open_one`: a file of the same user that may be.
void TryOnFile(const char* name, int open_one, Report* report) {
  struct stat was {};
  stat(name, &was);
  const timespec times[2] = {};
  report->Tell("times", utimensat(AT_FDCWD, name, times, 0) == 0);
  report->Tell("setxattr", setxattr(name, "user.outbox", "", 0, 0) == 0);
  report->Tell("lsetxattr", lsetxattr(name, "user.outbox", "", 0, 0) == 0);
  report->Tell("removexattr", removexattr(name, "user.outbox") == 0);
  report->Tell("lremovexattr", lremovexattr(name, "user.outbox") == 0);
  report->Tell("truncate", truncate(name, was.st_size) == 0);
  report->Tell("emptied", open(name, O_RDONLY | O_TRUNC | O_CLOEXEC) >= 0);
  report->Tell("neither", open(name, O_ACCMODE | O_CLOEXEC) >= 0);
  report->Tell("chmod", chmod(name, 0) == 0);
  report->Tell("fchmodat", fchmodat(AT_FDCWD, name, 0, 0) == 0);
  report->Tell("fchmodat2", syscall(kFchmodat2, AT_FDCWD, name, 0, 0) == 0);
  report->Tell("chown", chown(name, was.st_uid, was.st_gid) == 0);
  report->Tell("lchown", lchown(name, was.st_uid, was.st_gid) == 0);
  report->Tell("fchownat", fchownat(AT_FDCWD, name, was.st_uid, was.st_gid, 0) == 0);
  report->Tell("fchmod", fchmod(open_one, 0666) == 0);
  report->Tell("fchown", fchown(open_one, was.st_uid, was.st_gid) == 0);
  report->Tell("fsetxattr", fsetxattr(open_one, "user.outbox", "", 0, 0) == 0);
  report->Tell("fremovexattr", fremovexattr(open_one, "user.outbox") == 0);
}

// What the libraries do, or may, with this process itself.
void UseOneself(Report* report) {
  rlimit64 limit{};
  cpu_set_t processors;
  const sched_param priority{};
  report->Tell("thread", [] {
    pthread_t thread;
    return pthread_create(
               &thread, nullptr, [](void* nothing) { return nothing; }, nullptr) == 0 &&
           pthread_join(thread, nullptr) == 0;
  }());
  report->Tell("raise", raise(SIGUSR1) == 0);
  report->Tell("limits", syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, nullptr, &limit) == 0 &&
                             syscall(SYS_prlimit64, getpid(), RLIMIT_NOFILE, &limit, nullptr) == 0);
  report->Tell("affinity", sched_getaffinity(0, sizeof(processors), &processors) == 0 &&
                               sched_setaffinity(0, sizeof(processors), &processors) == 0);
  report->Tell("nice", setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0)) == 0);
  report->Tell("scheduler", sched_setscheduler(0, SCHED_OTHER, &priority) == 0);
  int pair[2] = {-1, -1};
  int on = 1;
  report->Tell("nonblocking", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 &&
                                  fcntl(pair[0], F_SETFL, O_NONBLOCK) == 0 && ioctl(pair[1], FIONBIO, &on) == 0);
  close(pair[0]);
  close(pair[1]);
}

}  // namespace

void TryToEscape() {
  const char* faults = getenv("OUTBOX_FAULT_DIR");
  if (faults == nullptr) {
    return;
  }
  char target[PATH_MAX] = "";
  const int fd = open((std::string(faults) + "/escape").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return;
  }
  const ssize_t got = read(fd, target, sizeof(target) - 1);
  std::vector<std::string> sockets;
  pid_t victim = 0;
  for (char* line = strtok(target, "\n"); got > 0 && (line = strtok(nullptr, "\n")) != nullptr;) {
    if (strncmp(line, "process ", 8) == 0) {
      victim = static_cast<pid_t>(strtol(line + 8, nullptr, 10));
    } else {
      sockets.emplace_back(line);
    }
  }
  Report report(DescribeConfinement() + ":");
  const pid_t parent = getppid();
  const std::string memory = "/proc/" + std::to_string(parent) + "/mem";
  report.Tell("read", open(target, O_RDONLY | O_CLOEXEC) >= 0);
  report.Tell("list", open(DirectoryOf(target).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) >= 0);
  report.Tell("write", open((std::string(target) + ".new").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0);
  const std::string moved = std::string(target) + ".moved";
  report.Tell("move", rename(target, moved.c_str()) == 0 && rename(moved.c_str(), target) == 0);
  report.Tell("memory", open(memory.c_str(), O_RDWR | O_CLOEXEC) >= 0);
  report.Tell("trace", ptrace(PTRACE_SEIZE, parent, nullptr, nullptr) == 0);
  report.Tell("signal", kill(parent, 0) == 0);
  char* const nothing[] = {nullptr};
  report.Tell("program", access("/bin/true", X_OK) == 0 && syscall(SYS_execve, "/bin/sh", nothing, nothing) == 0);
  report.Tell("self", kill(getpid(), 0) == 0);
  for (const std::string& name : sockets) {
    report.Tell("socket", ConnectTo(name));
  }
  if (!sockets.empty()) {
    int pair[2];
    report.Tell("datagrams", socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) == 0);
    report.Tell("pair", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    syslog(LOG_USER | LOG_DEBUG, "outbox tries whether it may write here");  // returns
  }
  if (victim != 0) {
    report.Say(" process:");
    TryOnProcess(victim, &report);
    report.Say(" file:");
    TryOnFile(target, fd, &report);
    report.Say(" itself:");
    UseOneself(&report);
  }
  report.Say(getenv("SOMEBODYS_SECRET") == nullptr ? " environment clean\n" : " environment leaks\n");
  const int out =
      open((std::string(faults) + "/escape.result").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  [[maybe_unused]] ssize_t written = write(out, report.text().data(), report.text().size());
  close(out);
  close(fd);
}

}  // namespace outbox::sink
#endif
