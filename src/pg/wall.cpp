#include "pg/wall.h"

#include <ctime>

#include "base/fault_point.h"
#include "pg/shared.h"

namespace outbox::pg {

namespace {

#ifdef CLOCK_BOOTTIME
constexpr clockid_t kBootClock = CLOCK_BOOTTIME;
#else
constexpr clockid_t kBootClock = CLOCK_MONOTONIC;
#endif

int64 BootClock() {
  timespec now = {};
  clock_gettime(kBootClock, &now);
  return static_cast<int64>(now.tv_sec) * USECS_PER_SEC + now.tv_nsec / 1000;
}

// Tests cannot wait for five minutes.
int64 BelieveAfter() {
  return kBelieveAfterMicros - OUTBOX_FAULT_VALUE("clock.believe_sooner");
}

bool Near(int64 a, int64 b) {
  return a - b <= kSmallStepMicros && b - a <= kSmallStepMicros;
}

int64 ReadAtomic(pg_atomic_uint64* value) {
  return static_cast<int64>(pg_atomic_read_u64(value));
}

void WriteAtomic(pg_atomic_uint64* value, int64 to) {
  pg_atomic_write_u64(value, static_cast<uint64>(to));
}

// The rare case: the wall clock is not where it should be. Fields are changed under the lock, and read without it: at
// worst a reader gets the time of a moment before.
void CheckJump(WallState* wall, int64 boot, int64 offset) {
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  if (Near(offset, ReadAtomic(&wall->offset))) {
    WriteAtomic(&wall->jumped_at, 0);
  } else if (ReadAtomic(&wall->jumped_at) == 0 || !Near(offset, ReadAtomic(&wall->jumped_offset))) {
    WriteAtomic(&wall->jumped_offset, offset);
    WriteAtomic(&wall->jumped_at, boot);
  }
  if (ReadAtomic(&wall->jumped_at) != 0 && boot - ReadAtomic(&wall->jumped_at) >= BelieveAfter()) {
    WriteAtomic(&wall->offset, offset);
    WriteAtomic(&wall->settled_from, ReadAtomic(&wall->jumped_at));
    WriteAtomic(&wall->jumped_at, 0);
  }
  LWLockRelease(Shared()->lock);
}

}  // namespace

int64 RawWall() {
  return UnixNow() + OUTBOX_FAULT_VALUE("clock.shift");
}

int64 BelievedWall() {
  if (Shared() == nullptr) {
    return RawWall();
  }
  WallState* wall = &Shared()->wall;
  int64 boot = BootClock();
  int64 now = RawWall();
  int64 offset = now - boot;
  int64 believed = ReadAtomic(&wall->offset);
  int64 jumped_at = ReadAtomic(&wall->jumped_at);
  if (Near(offset, believed)) {
    if (jumped_at != 0) {
      CheckJump(wall, boot, offset);
    } else if (offset - believed > USECS_PER_SEC || believed - offset > USECS_PER_SEC) {
      WriteAtomic(&wall->offset, offset);
    }
    return now;
  }
  if (jumped_at == 0 || !Near(offset, ReadAtomic(&wall->jumped_offset)) || boot - jumped_at >= BelieveAfter()) {
    CheckJump(wall, boot, offset);
  }
  return boot + ReadAtomic(&wall->offset);
}

int64 PendingJump() {
  if (Shared() == nullptr) {
    return 0;
  }
  int64 believed = BelievedWall();
  int64 jump = RawWall() - believed;
  return Near(jump, 0) ? 0 : jump;
}

void BelieveWall() {
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  WallState* wall = &Shared()->wall;
  WriteAtomic(&wall->offset, RawWall() - BootClock());
  WriteAtomic(&wall->jumped_at, 0);
  LWLockRelease(Shared()->lock);
}

bool WallIsSettled() {
  WallState* wall = &Shared()->wall;
  return PendingJump() == 0 && BootClock() - ReadAtomic(&wall->settled_from) >= BelieveAfter();
}

int64 MicrosSinceStart() {
  return BootClock() - Shared()->wall.started_at;
}

void StartWall() {
  WallState* wall = &Shared()->wall;
  wall->started_at = BootClock();
  pg_atomic_init_u64(&wall->offset, static_cast<uint64>(RawWall() - wall->started_at));
  pg_atomic_init_u64(&wall->settled_from, static_cast<uint64>(wall->started_at));
  pg_atomic_init_u64(&wall->jumped_offset, 0);
  pg_atomic_init_u64(&wall->jumped_at, 0);
}

}  // namespace outbox::pg
