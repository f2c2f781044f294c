#include "sink/escape.h"

#include "base/fault_point.h"  // and so a build of its own, see the Makefile

#ifdef OUTBOX_FAULT_POINTS

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>
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

}  // namespace outbox::sink
#endif
