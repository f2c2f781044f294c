#include "worker/start_mark.h"

extern "C" {
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file_perm.h"
}

namespace outbox::worker {

namespace {

constexpr const char* kDirectory = "pg_stat";  // servers run in their data directory
constexpr const char* kPrefix = "outbox_start.";
constexpr long kFirstDelayMs = 2000;
constexpr long kLongestDelayMs = 5 * 60 * 1000;

// "0000000003 r 00000000000000654321": crashes in a row; r running, w waiting or ended in order; the file's own inode,
// by which a copy is known.
constexpr int kStateAt = 11;
constexpr int kInodeAt = 13;
constexpr int kMarkSize = 34;

volatile int own_file = -1;

void PathOf(const MarkedProcess& process, char* path) {
  pg_snprintf(path, MAXPGPATH, "%s/%s%u.%d.%d", kDirectory, kPrefix, process.database, process.kind, process.ordinal);
}

uint64 InodeOf(int file) {
  struct stat status;
  return file >= 0 && fstat(file, &status) == 0 ? static_cast<uint64>(status.st_ino) : 0;
}

// Async-signal-safe.
void SayEnded() {
  if (own_file >= 0) {
    (void)!pwrite(own_file, "w", 1, kStateAt);
  }
}

// Another process crashed and the postmaster ends all: writes the mark, and does what SignalHandlerForCrashExit does.
void HandleQuit(SIGNAL_ARGS) {
  SayEnded();
  _exit(2);
}

void SayEndedAtExit(int code, Datum arg) {
  SayEnded();
}

}  // namespace

long CrashDelayMs(int crashes) {
  if (crashes <= kCrashesForgiven) {
    return 0;
  }
  return Min(kFirstDelayMs << Min(crashes - kCrashesForgiven - 1, 10), kLongestDelayMs);
}

void MarkStart(const MarkedProcess& process, int crashes) {
  char path[MAXPGPATH];
  char mark[kMarkSize + 1];
  PathOf(process, path);
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, pg_file_create_mode);
  pg_snprintf(mark, sizeof(mark), "%010d r %020llu\n", crashes, static_cast<unsigned long long>(InodeOf(file)));
  if (file < 0 || write(file, mark, kMarkSize) != kMarkSize) {
    // Without the mark a crash of the process goes unnoticed; but a full disk must not stop the publishing.
    ereport(DEBUG1, (errcode_for_file_access(), errmsg_internal("could not write \"%s\": %m", path)));
  }
  if (file >= 0) {
    close(file);
  }
}

void MarkWaiting(const MarkedProcess& process) {
  char path[MAXPGPATH];
  PathOf(process, path);
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file >= 0) {
    (void)!pwrite(file, "w", 1, kStateAt);
    close(file);
  }
}

void ForgetStart(const MarkedProcess& process) {
  char path[MAXPGPATH];
  PathOf(process, path);
  unlink(path);
}

void WatchOwnStart(const MarkedProcess& process) {
  char path[MAXPGPATH];
  PathOf(process, path);
  own_file = open(path, O_WRONLY | O_CLOEXEC);
  pqsignal(SIGQUIT, HandleQuit);
  on_shmem_exit(SayEndedAtExit, static_cast<Datum>(0));
}

void ReadStartMarks(SeenMark seen, void* context) {
  DIR* directory = opendir(kDirectory);
  if (directory == nullptr) {
    return;
  }
  while (struct dirent* entry = readdir(directory)) {
    if (strncmp(entry->d_name, kPrefix, strlen(kPrefix)) != 0) {
      continue;
    }
    char path[MAXPGPATH];
    char mark[kMarkSize + 1] = "";
    pg_snprintf(path, sizeof(path), "%s/%s", kDirectory, entry->d_name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, mark, kMarkSize);
    const uint64 inode = InodeOf(file);
    if (file >= 0) {
      close(file);
    }
    MarkedProcess process = {InvalidOid, 0, 0};
    if (got == kMarkSize && strtoull(mark + kInodeAt, nullptr, 10) == inode &&
        sscanf(entry->d_name + strlen(kPrefix), "%u.%d.%d", &process.database, &process.kind, &process.ordinal) == 3) {
      bool running = mark[kStateAt] == 'r';
      seen(process, atoi(mark) + (running ? 1 : 0), running, context);
    } else {
      unlink(path);
    }
  }
  closedir(directory);
}

}  // namespace outbox::worker
