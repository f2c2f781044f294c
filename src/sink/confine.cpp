#include "sink/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/fault_point.h"
#include "sink/data_directories.h"
#include "sink/escape.h"
#include "sink/refused_calls.h"

namespace outbox::sink {
namespace {

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

// What is at `path`, by way of links; {0, 0}: nothing.
using Identity = std::pair<dev_t, ino_t>;
Identity IdentityOf(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? Identity(status.st_dev, status.st_ino) : Identity();
}

// A name, and what it led to when that was admitted: landlock admits what is there, not what a name leads to later.
struct Named {
  std::string path;
  std::array<Identity, 3> admitted;
};

std::array<Identity, 3> LeadsTo(const std::string& path) {
  return {IdentityOf(path), IdentityOf(DirectoryOf(path) + "/"), IdentityOf(DirectoryOf(Resolved(path)) + "/")};
}

bool Refused(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const bool refused = fd < 0 && errno == EACCES;
  if (fd >= 0) {
    close(fd);
  }
  return refused;
}

std::vector<Named>& AllNamed() {
  static auto* all = new std::vector<Named>();
  return *all;
}

// A file that an option names, and its directory: a renewed file is another one under the same name. A directory only
// where no data directory is opened with it.
void AdmitNamed(const std::string& path, const DataDirectories& data, FileRules* rules) {
  AllNamed().push_back({path, LeadsTo(path)});  // before: what comes in between counts as later
  std::vector<std::string> directories{DirectoryOf(path), DirectoryOf(Resolved(path))};
  if (IsDirectory(path)) {
    directories.push_back(path);
  } else {
    rules->Admit(path, kRead);
  }
  for (const std::string& directory : directories) {
    if (!directory.empty() && !data.TouchedOrAnothers(directory)) {
      rules->Admit(directory, kRead);
    }
  }
}

}  // namespace

void ConfineProcess() {
  DropCapabilities();
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  seccomp_on = RefuseCalls();
}

void ConfineSockets() {
  if (seccomp_on) {
    RefuseSockets();
  }
}

void ConfineFiles(const FileNeeds& needs) {
  FileRules rules;
  if (rules.usable() && !kSanitized && OUTBOX_FAULT_VALUE("sink.without_landlock") == 0) {
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
      AdmitNamed(file, data, &rules);
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
  if (seccomp_on && !needs.temporary) {  // libkrb5 sets the mode of a file of tickets that it makes
    RefuseChangesOfFiles();
  }
#ifdef OUTBOX_FAULT_POINTS
  TryToEscape();
#endif
}

bool ShutOutOfRenewed() {
  return landlock_on && std::any_of(AllNamed().begin(), AllNamed().end(), [](const Named& named) {
           return Refused(named.path) && LeadsTo(named.path) != named.admitted;
         });
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
