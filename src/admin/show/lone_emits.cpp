// outbox.lone_emit and what doctor() says of it: transactions that emitted and changed nothing else [P].
#include "admin/show/doctor.h"
#include "pg/entry.h"
#include "pg/settings.h"
#include "pg/shared.h"

extern "C" {
#include "pgstat.h"
}

namespace outbox::admin {

namespace {

// After the last one doctor() tells of them for so long: where they were mended, or are allowed by now, it is said no
// more.
constexpr TimestampTz kToldFor = USECS_PER_HOUR;

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

// Roles and databases whose own setting has track_counts off, where outbox.lone_emit is not "allow", either.
Cell UncountedRoles() {
  return RunSql(
      Access::kRead,
      "SELECT string_agg(format('ALTER %s RESET track_counts;', CASE WHEN s.setrole = 0 AND d.datname IS NULL "
      "THEN 'ROLE ALL' WHEN s.setrole = 0 THEN format('DATABASE %I', d.datname) ELSE format('ROLE %I', "
      "pg_get_userbyid(s.setrole)) || coalesce(' IN DATABASE ' || quote_ident(d.datname), '') END), ' ' ORDER BY "
      "s.setrole, s.setdatabase) FROM pg_db_role_setting s LEFT JOIN pg_database d ON d.oid = s.setdatabase "
      "WHERE s.setdatabase IN (0, (SELECT c.oid FROM pg_database c WHERE c.datname = current_database())) "
      "AND EXISTS (SELECT FROM unnest(s.setconfig) c WHERE CASE WHEN c LIKE 'track\\_counts=%' THEN NOT "
      "split_part(c, '=', 2)::boolean ELSE false END) "
      "AND coalesce((SELECT lower(split_part(c, '=', 2)) FROM unnest(s.setconfig) c WHERE lower(c) LIKE "
      "'outbox.lone\\_emit=%'), $1) <> 'allow'",
      {Cell(pg::settings.lone_emit == static_cast<int>(pg::LoneEmit::kAllow) ? "allow" : "warn")})[0][0];
}

// What a transaction changed is known by what the server counts for its statistics.
void CheckCounting(Findings* findings) {
  const bool here = !pgstat_track_counts && pg::settings.lone_emit != static_cast<int>(pg::LoneEmit::kAllow);
  const Cell roles = UncountedRoles();
  if (!here && !roles) {
    return;
  }
  findings->Warn("lone events",
                 "outbox.lone_emit warns of nothing and refuses nothing where track_counts is off, as it is " +
                     std::string(here ? "here" : "for some roles or databases") +
                     ": the server does not count there what a transaction has changed.",
                 (here ? "ALTER SYSTEM SET track_counts = on; SELECT pg_reload_conf(); (autovacuum needs it, too)."
                       : std::string()) +
                     (here && roles ? " " : "") + (roles ? *roles : "") +
                     " Where events stand alone: SET outbox.lone_emit = allow.");
}

}  // namespace

// Says nothing where all is well: that is no state of the outbox, but of the applications.
void CheckLoneEmits(Findings* findings) {
  CheckCounting(findings);
  const EmittingCommits commits = CountCommits();
  if (commits.lone == 0 || pg::settings.lone_emit == static_cast<int>(pg::LoneEmit::kAllow) ||
      GetCurrentTimestamp() - commits.last_lone > kToldFor) {
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
