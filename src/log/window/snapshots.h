// Snapshots as the log keeps them [P]. Plain except for the vectors they fill; under a guard.
#pragma once

#include <cstdint>

#include "base/snapshot.h"
#include "pg/prelude.h"

namespace outbox::log {

// The active snapshot, as pg_current_snapshot() would tell it. In a read committed transaction that has just begun it
// is the current one.
void ReadActiveSnapshot(Snapshot* snapshot);

// WAL position that, once durable, makes everything durable that a snapshot taken before the call can see. XLogFlush()
// accepts it, unlike the insert position itself, which points behind the header of the next page when the last record
// ended with its page.
uint64_t DurableTarget();

// About how many transactions have finished in `to` and had not in `from`; 0 means exactly none.
uint64_t FinishedBetween(const Snapshot& from, const Snapshot& to);

}  // namespace outbox::log
