#include "admin/lookup/standstill.h"

#include "base/fault_point.h"
#include "base/monotonic.h"

namespace outbox::admin {

int64 LongestTurn(pg::WorkerKind kind) {
  // None sleeps for more than a fifth of a second; a keeper has work that takes its time.
  constexpr int64 kOfRelay = 15 * USECS_PER_SEC;
  constexpr int64 kOfKeeper = 60 * USECS_PER_SEC;
  const int64 asked = OUTBOX_FAULT_VALUE("doctor.stands");
  return asked > 0 ? asked : kind == pg::WorkerKind::kRelay ? kOfRelay : kOfKeeper;
}

int64 StandsSince(int64 turn, int64 longest) {
  // Not by the server's clock, which may have jumped.
  const int64 idle = turn == 0 ? 0 : MonotonicMicros() - turn;
  return idle > longest ? pg::UnixNow() - idle : 0;
}

}  // namespace outbox::admin
