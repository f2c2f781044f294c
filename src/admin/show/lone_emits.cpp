// outbox.lone_emit and what doctor() says of it: transactions that emitted and changed nothing else [P].
#include "admin/show/doctor.h"
#include "pg/entry.h"
#include "pg/lone_emit.h"
#include "pg/settings.h"
#include "pg/shared.h"

namespace outbox::admin {

namespace {

// After the last one doctor() tells of them for so long: where they were mended, or are allowed by now, it is said no
// more.
constexpr TimestampTz kTold = USECS_PER_HOUR;

struct EmittingCommits {
  uint64 all = 0;
  uint64 lone = 0;
  TimestampTz last_lone = 0;
};

EmittingCommits CountCommits() {
  pg::DatabaseSlot* slot = pg::Shared() == nullptr ? nullptr : pg::FindDatabaseSlot(MyDatabaseId, false);
  if (slot == nullptr) {
    return {};
  }
  return {pg_atomic_read_u64(&slot->emitting_commits), pg_atomic_read_u64(&slot->lone_emits.count),
          static_cast<TimestampTz>(pg_atomic_read_u64(&slot->lone_emits.last_at))};
}

}  // namespace

// Says nothing where all is well: that is no state of the outbox, but of the applications.
void CheckLoneEmits(Findings* findings) {
  const EmittingCommits commits = CountCommits();
  if (commits.lone == 0 || pg::settings.lone_emit == static_cast<int>(pg::LoneEmit::kAllow) ||
      GetCurrentTimestamp() - commits.last_lone > kTold) {
    return;
  }
  findings->Warn(
      "lone events",
      std::to_string(commits.lone) + " of " + std::to_string(commits.all) +
          " transactions that emitted changed nothing else, since the server started, the last of them within the "
          "hour: where their events "
          "tell of changes, a crash in between loses some.",
      "Emit in the transaction that makes the change; outbox.lone_emit = refuse finds the place. Where events "
      "stand alone: ALTER ROLE ... SET outbox.lone_emit = allow. An hour after the last one nothing is said of them.");
}

}  // namespace outbox::admin

OUTBOX_FUNCTION(outbox_lone_emit) {
  using namespace outbox::admin;
  ResultSet result(fcinfo);
  result.Begin();
  if (outbox::pg::Shared() != nullptr) {
    const EmittingCommits commits = CountCommits();
    result.Add({Cell(std::to_string(commits.all)), Cell(std::to_string(commits.lone))});
  }
  return static_cast<Datum>(0);
}
