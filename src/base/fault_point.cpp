#include "base/fault_point.h"

#ifdef OUTBOX_FAULT_POINTS

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

namespace outbox {
namespace {

constexpr int kWaitLimitMs = 60 * 1000;
constexpr int kNapMs = 2;

const char* Directory() {
  static const char* const directory = getenv("OUTBOX_FAULT_DIR");
  return directory;
}

struct Path {
  Path(const char* name, const char* suffix) { snprintf(text, sizeof(text), "%s/%s%s", Directory(), name, suffix); }
  char text[512];
};

void Nap(int milliseconds) {
  timespec nap{milliseconds / 1000, (milliseconds % 1000) * 1'000'000L};
  nanosleep(&nap, nullptr);
}

void Touch(const Path& path) {
  int fd = open(path.text, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd >= 0) {
    close(fd);
  }
}

struct Action {
  char word[16] = "";
  char count[16] = "1";
  int argument = 0;

  bool Is(const char* name) const { return strcmp(word, name) == 0; }
};

// Returns true if it is this pass's turn. The lock makes passes of several processes count one after another.
bool Take(const char* name, Action* action) {
  const Path path(name, "");
  int fd = open(path.text, O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    return false;
  }
  bool mine = false;
  char text[64] = "";
  if (flock(fd, LOCK_EX) == 0 && access(path.text, F_OK) == 0 && read(fd, text, sizeof(text) - 1) > 0 &&
      sscanf(text, "%15s %15s %d", action->word, action->count, &action->argument) >= 1) {
    int left = atoi(action->count);
    if (strcmp(action->count, "*") == 0) {
      mine = true;
    } else if (left > 1) {
      int size = snprintf(text, sizeof(text), "%s %d %d\n", action->word, left - 1, action->argument);
      mine = ftruncate(fd, 0) != 0 || pwrite(fd, text, static_cast<size_t>(size), 0) != size;
    } else {
      mine = unlink(path.text) == 0;
    }
  }
  close(fd);
  return mine;
}

void Record(const char* name, const Action& action) {
  char line[160];
  int size = snprintf(line, sizeof(line), "%s %s %d\n", name, action.word, static_cast<int>(getpid()));
  int fd = open(Path("hits", "").text, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd >= 0) {
    [[maybe_unused]] ssize_t written = write(fd, line, static_cast<size_t>(size));
    close(fd);
  }
}

// If the parent has gone (the postmaster, or a sink's worker) no test will release this process.
void Wait(const char* name) {
  const Path path(name, ".waiting");
  const pid_t parent = getppid();
  Touch(path);
  for (int waited = 0; access(path.text, F_OK) == 0 && waited < kWaitLimitMs && getppid() == parent; waited += kNapMs) {
    Nap(kNapMs);
  }
}

void Act(const char* name, const Action& action) {
  Record(name, action);
  if (action.Is("kill")) {
    kill(getpid(), SIGKILL);
  } else if (action.Is("abort")) {
    abort();
  } else if (action.Is("exit")) {
    _exit(action.argument);
  } else if (action.Is("stop")) {
    kill(getpid(), SIGSTOP);
  } else if (action.Is("sleep")) {
    Nap(action.argument);
  } else if (action.Is("wait")) {
    Wait(name);
  }
}

// What file `name` holds.
bool ReadSmallFile(const char* name, char* text, size_t size) {
  int fd = open(Path(name, "").text, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return false;
  }
  ssize_t got = read(fd, text, size - 1);
  close(fd);
  text[got > 0 ? got : 0] = '\0';
  return got > 0;
}

}  // namespace

bool PassFaultPoint(const char* name, bool* reached) noexcept {
  if (Directory() == nullptr) {
    return false;
  }
  if (!*reached) {
    *reached = true;
    Touch(Path(name, ".reached"));
  }
  Action action;
  if (!Take(name, &action)) {
    return false;
  }
  Act(name, action);
  return action.Is("fail");
}

int64_t FaultValue(const char* name) noexcept {
  char text[32];
  return Directory() != nullptr && ReadSmallFile(name, text, sizeof(text)) ? atoll(text) : 0;
}

void TastePoison(std::string_view bytes) noexcept {
  char text[96];
  Action action;
  int used = 0;
  if (Directory() == nullptr || !ReadSmallFile("poison", text, sizeof(text)) ||
      sscanf(text, "%15s %n", action.word, &used) != 1) {
    return;
  }
  std::string_view poison(text + used);
  poison = poison.substr(0, poison.find('\n'));
  if (!poison.empty() && bytes.find(poison) != std::string_view::npos) {
    Act("poison", action);
  }
}

}  // namespace outbox

#endif
