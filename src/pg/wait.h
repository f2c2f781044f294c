// Waiting in a background worker [P]: always on the latch and on the postmaster's death, never longer than asked.
// Plain code. The caller processes interrupts (barriers too) after every wait: CHECK_FOR_INTERRUPTS.
#pragma once

#include "pg/prelude.h"

extern "C" {
#if PG_VERSION_NUM >= 180000
#include "storage/waiteventset.h"
#endif
}

namespace outbox::pg {

// What pg_stat_activity shows while waiting. `name` must be a literal; before 17 it always says "Extension".
uint32 WaitEventFor(const char* name);

// Waits for the latch, at most `timeout_ms`, and resets it.
void WaitForLatch(long timeout_ms, uint32 wait_event);

// Waits for all of that time, whatever sets the latch, and processes interrupts: in sessions, whose latch is often set.
void WaitWhole(long milliseconds, uint32 wait_event);

// A descriptor to wait for besides the latch.
struct WaitDescriptor {
  pgsocket fd;
  uint32 events;  // WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE
};

// Waits for the latch and descriptors, at most `timeout_ms`; resets the latch. The kernel object is kept
// from call to call and recreated only when the descriptors change; a new file under an old number is noticed. Where
// none is to be had it waits for the latch alone, a tenth of a second at most.
void WaitForDescriptors(const WaitDescriptor* descriptors, int count, long timeout_ms, uint32 wait_event);

}  // namespace outbox::pg
