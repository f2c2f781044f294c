#include "sink/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/fault_point.h"
#include "sink/data_directories.h"

namespace outbox::sink {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

bool seccomp_on = false;
bool landlock_on = false;

// --- capabilities
// -----------------------------------------------------------------------------------------------------

void DropCapabilities() {
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  for (unsigned long capability = 0; capability < 64; ++capability) {
    prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);  // without CAP_SETPCAP it is refused, and there is nothing to drop
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  syscall(SYS_capset, &header, none);
}

// --- seccomp
// ----------------------------------------------------------------------------------------------------------

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;  // another: no filter
#endif
constexpr uint32_t kX32 = 0x40000000;

// Numbers that this machine's headers do not have are given by hand: they are the same everywhere since 5.1.
constexpr long kDenied[] = {
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    438 /* pidfd_getfd */,
    424 /* pidfd_send_signal */,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_setns,
    SYS_unshare,
    428 /* open_tree */,
    429 /* move_mount */,
    430 /* fsopen */,
    431 /* fsconfig */,
    432 /* fsmount */,
    433 /* fspick */,
    442 /* mount_setattr */,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_name_to_handle_at,
    SYS_open_by_handle_at,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_acct,
    SYS_quotactl,
    SYS_personality,
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    425 /* io_uring_setup */,
    426 /* io_uring_enter */,
    427 /* io_uring_register */,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef SYS_iopl
    SYS_iopl,
    SYS_ioperm,
#endif
};
constexpr long kPrograms[] = {SYS_execve, SYS_execveat};
// Their first argument is a process: only this one is allowed.
constexpr long kSignals[] = {SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo};

constexpr auto kNumber = static_cast<uint32_t>(offsetof(seccomp_data, nr));
constexpr auto kArch = static_cast<uint32_t>(offsetof(seccomp_data, arch));
// Arguments. Low halves: both machines are little-endian.
constexpr auto kFirst = static_cast<uint32_t>(offsetof(seccomp_data, args));
constexpr auto kSecond = static_cast<uint32_t>(kFirst + sizeof(seccomp_data::args[0]));

bool Install(std::vector<sock_filter>* filter) {
  sock_fprog program{static_cast<unsigned short>(filter->size()), filter->data()};
  constexpr unsigned long kSpecAllow = 1UL << 2;  // before 5.16 a filter slows all of the process down otherwise
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, kSpecAllow, &program) == 0 ||
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

// Calls by the numbers of another machine (32 bits, x32) are refused, all of them: so no later filter has to ask.
void FilterCalls() {
  const sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_filter refuse = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  std::vector<sock_filter> filter;
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kArch));
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0));
  filter.push_back(refuse);
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber));
#ifdef __x86_64__
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kX32, 0, 1));
  filter.push_back(refuse);
#endif
  auto deny = [&](long number) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1));
    filter.push_back(refuse);
  };
  for (long number : kDenied) {
    deny(number);
  }
  if (!kSanitized) {
    for (long number : kPrograms) {
      deny(number);
    }
  }
  for (long number : kSignals) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 4));
    filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFirst));
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(getpid()), 0, 1));
    filter.push_back(allow);
    filter.push_back(refuse);
  }
  filter.push_back(allow);
  seccomp_on = Install(&filter);
}

// A pair of datagram sockets is refused, too: either end can be connected to something else.
void FilterSockets() {
  constexpr uint32_t kTypes = 0xf;
  std::vector<sock_filter> filter = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(SYS_socket), 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFirst),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 5, 6),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(SYS_socketpair), 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kSecond),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kTypes),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_SEQPACKET, 1, 0),
      // As of a kernel that has no such sockets: libraries know what to do without.
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  Install(&filter);
}

// --- landlock
// ---------------------------------------------------------------------------------------------------------

// From linux/landlock.h of a newer kernel than the oldest one supported for builds.
constexpr long kCreateRuleset = 444;
constexpr long kAddRule = 445;
constexpr long kRestrictSelf = 446;
struct Ruleset {
  uint64_t files = 0;
  uint64_t net = 0;
  uint64_t scoped = 0;
};
struct [[gnu::packed]] PathBeneath {
  uint64_t allowed = 0;
  int32_t parent = -1;
};
constexpr uint64_t kWriteFile = 1U << 1;
constexpr uint64_t kReadFile = 1U << 2;
constexpr uint64_t kReadDir = 1U << 3;
constexpr uint64_t kOfFiles = kWriteFile | kReadFile | 1U /* execute */ | 1U << 14 /* truncate */;
constexpr uint64_t kRead = kReadFile | kReadDir;

uint64_t RightsOf(long version) {
  const int bits = version >= 5 ? 16 : version >= 3 ? 15 : version == 2 ? 14 : 13;
  return (uint64_t{1} << bits) - 1;
}

class FileRules {
 public:
  FileRules() {
    const long version = syscall(kCreateRuleset, nullptr, size_t{0}, 1U);
    if (version < 1) {
      return;
    }
    all_ = RightsOf(version);
    Ruleset ruleset;
    ruleset.files = all_;
    ruleset.scoped = version >= 6 ? 3 : 0;  // abstract sockets, signals
    const size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
    fd_ = static_cast<int>(syscall(kCreateRuleset, &ruleset, size, 0U));
  }
  ~FileRules() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  FileRules(const FileRules&) = delete;
  FileRules& operator=(const FileRules&) = delete;

  bool usable() const { return fd_ >= 0; }
  uint64_t all() const { return all_; }
  // Paths that do not exist are left out.
  void Admit(const std::string& path, uint64_t rights) {
    PathBeneath rule;
    rule.parent = open(path.c_str(), O_PATH | O_CLOEXEC);
    if (rule.parent < 0) {
      return;
    }
    struct stat status {};
    const bool directory = fstat(rule.parent, &status) == 0 && S_ISDIR(status.st_mode);
    rule.allowed = rights & all_ & (directory ? ~uint64_t{0} : kOfFiles);
    syscall(kAddRule, fd_, 1, &rule, 0U);
    close(rule.parent);
  }
  bool Enforce() { return syscall(kRestrictSelf, fd_, 0U) == 0; }

 private:
  int fd_ = -1;
  uint64_t all_ = 0;
};

bool IsDirectory(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// A file that an option names, and its directory: a renewed file is another one under the same name. A directory only
// where no data directory is opened with it; returns false where that is so.
bool AdmitNamed(const std::string& path, const DataDirectories& data, FileRules* rules) {
  std::vector<std::string> directories{DirectoryOf(path), DirectoryOf(Resolved(path))};
  if (IsDirectory(path)) {
    directories.push_back(path);
  } else {
    rules->Admit(path, kRead);
  }
  bool all = true;
  for (const std::string& directory : directories) {
    if (directory.empty() || data.TouchedOrAnothers(directory)) {
      all = false;
    } else {
      rules->Admit(directory, kRead);
    }
  }
  return all;
}

}  // namespace

void ConfineProcess() {
  DropCapabilities();
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (kArchitecture != 0) {
    FilterCalls();
  }
}

void ConfineSockets() {
  if (seccomp_on) {
    FilterSockets();
  }
}

#ifdef OUTBOX_FAULT_POINTS
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

// What an attacker would try who has taken this process over. File "escape" names a file of the data directory,
// and sockets, a line each.
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
  close(fd);
  std::vector<std::string> sockets;
  for (char* line = strtok(target, "\n"); got > 0 && (line = strtok(nullptr, "\n")) != nullptr;) {
    sockets.emplace_back(line);
  }
  std::string text = DescribeConfinement() + ":";
  auto tell = [&text](const char* what, bool done) {
    const int why = errno;
    text += std::string(" ") + what + " " +
            (done                                                   ? "done"
             : why == EPERM || why == EACCES || why == EAFNOSUPPORT ? "refused"
                                                                    : strerror(why));
  };
  const pid_t parent = getppid();
  const std::string memory = "/proc/" + std::to_string(parent) + "/mem";
  tell("read", open(target, O_RDONLY | O_CLOEXEC) >= 0);
  tell("list", open(DirectoryOf(target).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) >= 0);
  tell("write", open((std::string(target) + ".new").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0);
  const std::string moved = std::string(target) + ".moved";
  tell("move", rename(target, moved.c_str()) == 0 && rename(moved.c_str(), target) == 0);
  tell("memory", open(memory.c_str(), O_RDWR | O_CLOEXEC) >= 0);
  tell("trace", ptrace(PTRACE_SEIZE, parent, nullptr, nullptr) == 0);
  tell("signal", kill(parent, 0) == 0);
  char* const nothing[] = {nullptr};
  tell("program", access("/bin/true", X_OK) == 0 && syscall(SYS_execve, "/bin/sh", nothing, nothing) == 0);
  tell("self", kill(getpid(), 0) == 0);
  for (const std::string& name : sockets) {
    tell("socket", ConnectTo(name));
  }
  if (!sockets.empty()) {
    int pair[2];
    tell("datagrams", socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) == 0);
    tell("pair", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    syslog(LOG_USER | LOG_DEBUG, "outbox tries whether it may write here");  // returns
  }
  text += getenv("SOMEBODYS_SECRET") == nullptr ? " environment clean\n" : " environment leaks\n";
  const int out =
      open((std::string(faults) + "/escape.result").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  [[maybe_unused]] ssize_t written = write(out, text.data(), text.size());
  close(out);
}

}  // namespace
#endif

std::vector<std::string> ConfineFiles(const FileNeeds& needs) {
  FileRules rules;
  std::vector<std::string> unrenewed;
  if (rules.usable() && !kSanitized) {
    const DataDirectories data(needs.data_directory);
    const auto admit_apart = [&](const std::string& directory, uint64_t rights) {
      if (!data.Touched(directory)) {
        rules.Admit(directory, rights);
      }
    };
    for (const char* path : {"/usr/lib",
                             "/usr/lib32",
                             "/usr/lib64",
                             "/lib",
                             "/lib64",
                             "/usr/libexec",
                             "/usr/share",
                             "/usr/local/lib",
                             "/usr/local/lib64",
                             "/usr/local/share",
                             "/usr/local/etc",
                             "/usr/local/ssl",
                             "/etc",
                             "/nix/store",
                             "/gnu/store",
                             "/var/lib/ca-certificates",
                             "/run/systemd/resolve",
                             "/run/resolvconf",
                             "/run/NetworkManager",
                             "/run/nscd",
                             "/var/lib/sss",
                             "/proc",
                             "/sys/devices/system",
                             "/sys/fs/cgroup",
                             "/dev/urandom",
                             "/dev/random"}) {
      admit_apart(path, kRead);
    }
    admit_apart(DirectoryOf(Resolved("/etc/resolv.conf")), kRead);
    rules.Admit("/dev/null", kReadFile | kWriteFile);
    for (const std::string& file : needs.files) {
      if (!AdmitNamed(file, data, &rules)) {
        unrenewed.push_back(file);
      }
    }
    for (const char* name : {"SSL_CERT_FILE", "SSL_CERT_DIR", "OPENSSL_CONF", "KRB5_CONFIG", "TZDIR"}) {
      const char* value = getenv(name);
      if (value != nullptr && value[0] == '/') {
        AdmitNamed(value, data, &rules);
      }
    }
    if (needs.temporary) {
      admit_apart("/tmp", rules.all());
      admit_apart("/var/tmp", rules.all());
    }
#ifdef OUTBOX_FAULT_POINTS
    if (const char* faults = getenv("OUTBOX_FAULT_DIR"); faults != nullptr) {
      rules.Admit(faults, rules.all());
    }
#endif
    landlock_on = rules.Enforce();
  }
#ifdef OUTBOX_FAULT_POINTS
  TryToEscape();
#endif
  return unrenewed;
}

std::string DescribeConfinement() {
  std::string text;
  for (const auto& [on, name] : {std::pair(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "no_new_privs"),
                                 std::pair(seccomp_on, "seccomp"), std::pair(landlock_on, "landlock")}) {
    if (on) {
      text += (text.empty() ? "" : " ") + std::string(name);
    }
  }
  return text;
}

}  // namespace outbox::sink
