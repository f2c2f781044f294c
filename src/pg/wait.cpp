#include "pg/wait.h"

#include "base/monotonic.h"
#include "pg/descriptors.h"
#include "pg/entry.h"

#include <sys/stat.h>

namespace outbox::pg {

namespace {

constexpr long kUnheardMs = 100;
constexpr int64 kTellEveryMicros = 60 * USECS_PER_SEC;

struct Known {
  WaitDescriptor descriptor;
  ino_t inode;
};

WaitEventSet* wait_set = nullptr;
Known* known = nullptr;
int known_count = 0;
int known_room = 0;

// A closed descriptor drops out of an epoll set without a word, and its number comes again: the inode tells.
ino_t InodeOf(pgsocket fd) {
  struct stat status;
  return fstat(fd, &status) == 0 ? status.st_ino : 0;
}

bool SameDescriptors(const WaitDescriptor* descriptors, int count) {
  if (wait_set == nullptr || count != known_count) {
    return false;
  }
  for (int i = 0; i < count; i++) {
    if (descriptors[i].fd != known[i].descriptor.fd || InodeOf(descriptors[i].fd) != known[i].inode) {
      return false;
    }
  }
  return true;
}

void Rebuild(const WaitDescriptor* descriptors, int count) {
  if (wait_set != nullptr) {
    FreeWaitEventSet(wait_set);
    wait_set = nullptr;
  }
  known_count = -1;  // until it is whole: what is in it when an error is raised is freed by the next call
  if (count > known_room) {
    int room = Max(count, 2 * known_room);
    Known* larger = static_cast<Known*>(MemoryContextAlloc(TopMemoryContext, room * sizeof(Known)));
    if (known != nullptr) {
      pfree(known);
    }
    known = larger;
    known_room = room;
  }
  wait_set = NewWaitEventSet(count + 2);
  AddWaitEventToSet(wait_set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, nullptr);
  AddWaitEventToSet(wait_set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, nullptr, nullptr);
  for (int i = 0; i < count; i++) {
    AddWaitEventToSet(wait_set, descriptors[i].events, descriptors[i].fd, nullptr, nullptr);
    known[i] = {descriptors[i], InodeOf(descriptors[i].fd)};
  }
  known_count = count;
}

// No descriptor may be left, or no memory: a worker goes on without hearing of its descriptors, which it looks at
// anyway.
bool Rebuilt(const WaitDescriptor* descriptors, int count) {
  static int64 told_at = INT64_MIN / 2;
  PendingError error;
  if (Attempt([=] { Guard([=] { Rebuild(descriptors, count); }); }, &error)) {
    return true;
  }
  if (MonotonicMicros() - told_at >= kTellEveryMicros) {
    told_at = MonotonicMicros();
    Report(LOG, "outbox waits a tenth of a second at a time", error);
  }
  return false;
}

}  // namespace

uint32 WaitEventFor(const char* name) {
#if PG_VERSION_NUM >= 170000
  return WaitEventExtensionNew(name);
#else
  return PG_WAIT_EXTENSION;
#endif
}

void WaitForLatch(long timeout_ms, uint32 wait_event) {
  (void)WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, timeout_ms, wait_event);
  ResetLatch(MyLatch);
}

void WaitWhole(long milliseconds, uint32 wait_event) {
  const int64 until = MonotonicMicros() + static_cast<int64>(milliseconds) * 1000;
  for (int64 left = until - MonotonicMicros(); left > 0; left = until - MonotonicMicros()) {
    WaitForLatch(static_cast<long>((left + 999) / 1000), wait_event);
    CHECK_FOR_INTERRUPTS();
  }
}

void WaitForDescriptors(const WaitDescriptor* descriptors, int count, long timeout_ms, uint32 wait_event) {
  if (!SameDescriptors(descriptors, count) && !Rebuilt(descriptors, count)) {
    WaitForLatch(Min(timeout_ms, kUnheardMs), wait_event);
    return;
  }
  for (int i = 0; i < count; i++) {
    if (descriptors[i].events != known[i].descriptor.events) {
      ModifyWaitEvent(wait_set, i + 2, descriptors[i].events, nullptr);
      known[i].descriptor.events = descriptors[i].events;
    }
  }
  WaitEvent occurred;
  (void)WaitEventSetWait(wait_set, timeout_ms, &occurred, 1, wait_event);
  ResetLatch(MyLatch);
}

}  // namespace outbox::pg
