// outbox.adopt() and outbox.look_again() [P].
#include "admin/common/cursor.h"
#include "admin/common/operation.h"
#include "admin/common/procedure_arguments.h"
#include "admin/common/write_lock.h"
#include "admin/lookup/processes.h"
#include "admin/lookup/route_start.h"
#include "admin/operate/adoption.h"
#include "admin/operate/foreign_event.h"
#include "base/fault_point.h"
#include "base/version.h"
#include "days/drop.h"
#include "emit/check.h"
#include "emit/insert.h"
#include "pg/entry.h"
#include "pg/identity.h"
#include "pg/schemas.h"
#include "pg/transaction_end.h"

extern "C" {
#include "replication/logicalworker.h"
#include "storage/lmgr.h"
}

namespace outbox::admin {

namespace {

// Rows of a dump that the call itself moves; the keeper moves the rest.
int64 RowsAtOnce() {
  const int64 asked = OUTBOX_FAULT_VALUE("adopt.at_once");
  return asked > 0 ? asked : 100'000;
}

// With the owner's rights: what he has made of his tables runs with no others, also where a superuser adopts.
void Execute(const char* statement) {
  AsOwner([statement] {
    if (SPI_execute(statement, false, 0) < 0) {
      ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("unexpected result of a statement of outbox")));
    }
  });
}

// The workers of the original server do not run here: no parked event is being sent, and all lanes are free.
void ForgetOwners() {
  Execute("UPDATE outbox_internal.parked SET sender = NULL WHERE sender IS NOT NULL");
  Execute("UPDATE outbox_internal.lane SET owner = NULL, claimed_at = NULL WHERE owner IS NOT NULL");
}

// Whether this is a copy of the files (a template, a base backup, pg_upgrade). In such a copy transaction ids go on
// where they were, so positions stay valid. A dump brings identity and lanes, but no row of outbox_internal.origin.
bool IsCopyOfFiles() {
  if (SPI_execute("SELECT FROM outbox_internal.origin o, outbox_internal.identity i WHERE o.system_identifier = "
                  "i.system_identifier "
                  "AND o.database = i.database",
                  false, 0) != SPI_OK_SELECT) {
    ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("unexpected result of a query of outbox")));
  }
  return SPI_processed > 0;
}

// Whether this outbox was ever in use on this server.
bool HasOrigin() {
  if (SPI_execute("SELECT FROM outbox_internal.origin", false, 0) != SPI_OK_SELECT) {
    ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("unexpected result of a query of outbox")));
  }
  return SPI_processed > 0;
}

// For a copy of the files whose positions are not to be kept: all lanes start from now, with all their topics (one that
// is in trouble here leaves again). This transaction is in progress in that snapshot: what it emits itself is still to
// be published.
void StartLanesFromNow(const char* now) {
  days::EmptyDayTables(days::DayTableKind::kProgress);
  days::EmptyDayTables(days::DayTableKind::kTick);
  Execute("DELETE FROM outbox_internal.side_lane");
  Execute("DELETE FROM outbox_internal.lane_start");
  Execute(psprintf(
      "WITH start AS (SELECT '%s'::pg_catalog.pg_snapshot AS now), "
      "route AS (UPDATE outbox.route SET start_snapshot = start.now, start_time = 'infinity', lanes_begun = NULL, "
      "common_snapshot = NULL "
      "FROM start) "  // a change of the number of lanes that was under way begins again
      "UPDATE outbox_internal.lane SET owner = NULL, claimed_at = NULL, window_from = start.now, window_to = NULL, "
      "done_to = NULL, since = '-infinity' FROM start",
      now));
}

// Under their own ids and in their own order, each once: a subscription that is refreshed may bring a table anew. They
// were approved when they were first emitted; rows that cannot have been are left where they are.
int64 EmitForeignEvents() {
  int64 count = 0;
  // Not read-only: with a snapshot of its own, taken under the lock, so that it sees all that the DELETE below does.
  ForEachRow(Access::kWrite,
             "SELECT " OUTBOX_FOREIGN_EVENT
             ", coalesce(id = lag(id) OVER w AND created_at = lag(created_at) OVER w, false) "
             "FROM outbox_internal.emitted_again WINDOW w AS (ORDER BY created_at, id, received_at) "
             "ORDER BY created_at, id, received_at",
             0, nullptr, nullptr, nullptr, [&count](HeapTuple row, TupleDesc columns) {
               bool null = false;
               if (!DatumGetBool(SPI_getbinval(row, columns, 10, &null))) {
                 emit::NewEvent event;
                 FillForeignEvent(row, columns, 1, &event);
                 emit::InsertEvent(&event);
                 count++;
               }
               return true;
             });
  if (count > 0) {
    Execute("DELETE FROM outbox_internal.emitted_again");
  }
  return count;
}

void LockToAdopt(const char* name) {
  const Oid table = pg::FindOurRelation(name);
  if (OidIsValid(table)) {  // another version may have none
    LockRelationOid(table, ExclusiveLock);
  }
}

void RequireOwnVersion(pg::Presence presence) {
  if (presence == pg::Presence::kOtherVersion) {  // this library does not know its tables; it may not be a copy at all
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("cannot adopt an outbox whose version is not that of the library, \"%s\"", kVersion),
                    errdetail("The library does not know its tables, and workers wait until the versions are equal."),
                    errhint("Run ALTER EXTENSION outbox UPDATE first, or restart the server if another library was "
                            "installed since it was started.")));
  }
}

// Returns true if a dump is to be adopted. `now`: a snapshot. Plain.
bool TakeOver(bool keep_positions, const char* now) {
  SPI_connect();
  const pg::Presence presence = pg::FindInstallation().presence;
  bool dump = false;
  if (presence != pg::Presence::kHere) {
    const bool files = presence == pg::Presence::kForeign && IsCopyOfFiles();
    dump = presence == pg::Presence::kForeign && !files && !HasOrigin();
    if (files) {  // not the lanes of a dump whose adoption was under way when the files were copied
      Execute(
          "UPDATE outbox_internal.lane SET home = outbox_internal.home() WHERE home IN (SELECT "
          "pg_catalog.format('%s/%s', o.system_identifier, o.database) FROM outbox_internal.origin o)");
    }
    Execute("DELETE FROM outbox_internal.identity");
    Execute("DELETE FROM outbox_internal.origin");
    Execute("DELETE FROM outbox_internal.met_cluster");
    pg::SettleIdentity();
    ForgetOwners();
    if (files && !keep_positions) {
      StartLanesFromNow(now);
      Execute("UPDATE outbox_internal.adoption SET nothing = true");
    }
  }
  SPI_finish();
  return dump;
}

// C++ code that owns things.
int64 AdoptAll(bool keep_positions) {
  RequireWritable("outbox.adopt()");
  pg::Guard([] {
    emit::CheckMayEmit();
    // Before anything of it is read, of all that follows: see common/write_lock.h.
    LockToAdopt("identity");
    SPI_connect();
    RequireOwnVersion(pg::FindInstallation().presence);
    SPI_finish();
    LockToAdopt("foreign_event");  // waits for transactions that are diverting rows
  });
  LockToWrite({"origin"});
  LockLanesToGo();
  LockPositionsToGo();
  RepairGuards(/*wait=*/true);
  // From now on a role that is renamed keeps its limit: what came with another server's oid was found by name.
  RunSql(Access::kWrite, "SELECT outbox_internal.follow_role_names()");
  const RestoredRows restored = FindRestoredRows();
  // Whose it was, where that is another's.
  const Cell origin = RunSql(
      Access::kWrite,
      "SELECT (SELECT i.system_identifier::text || '/' || i.database::text FROM outbox_internal.identity i WHERE "
      "i.system_identifier::text || '/' || i.database::text <> outbox_internal.home() LIMIT 1)")[0][0];
  const std::string snapshot = SnapshotOfNow();
  const char* now = snapshot.c_str();
  const bool dump = pg::Guard([keep_positions, now] { return TakeOver(keep_positions, now); });
  if (dump || HasRestoredLanes()) {
    BeginAdoption(restored, !keep_positions);
  }
  int64 sent = pg::Guard([] {
    SPI_connect();
    int64 emitted = EmitForeignEvents();
    SPI_finish();
    return emitted;
  });
  const AdoptionStep step = Adopt(RowsAtOnce());
  if (step.under_way) {
    Notice("the events of the restored dump are being adopted; " + std::to_string(step.looked) +
               " have been looked at so far",
           "After this transaction has committed the keeper does the rest, and routes of the dump go on after that.",
           "SELECT detail FROM outbox.doctor() WHERE \"check\" = 'adoption' says how far it is.");
  }
  WriteAudit("adopt", Cell(), Cell(),
             JsonObject()
                 .Add("from", origin)
                 .Add("keep_positions", keep_positions ? "true" : "false")
                 .Add("sent", sent + step.sent)
                 .AddRaw("under_way", step.under_way ? "true" : "false"),
             Cell());
  pg::Guard([] {
    pg::NoteConfigChange();
    pg::WakeLauncherAtCommit(true);
  });
  return sent + step.sent;
}

}  // namespace

}  // namespace outbox::admin

// outbox.adopt(keep_positions boolean) RETURNS bigint: events that are now to be sent.
OUTBOX_FUNCTION(outbox_adopt) {
  PG_RETURN_INT64(outbox::admin::AdoptAll(outbox::admin::BooleanArgument(fcinfo, 0, "keep_positions")));
}

// outbox_internal.home()
OUTBOX_FUNCTION(outbox_home) {
  return outbox::pg::Guard([] { return CStringGetTextDatum(outbox::pg::HomeText()); });
}

// outbox_internal.in_subscription()
OUTBOX_FUNCTION(outbox_in_subscription) {
  PG_RETURN_BOOL(IsLogicalWorker());
}

namespace {
constexpr int kWithOneRoute = 2;  // a keeper and a relay worker: what an installation needs at least
}

// outbox.look_again(): the launcher checks this database when the transaction commits.
OUTBOX_FUNCTION(outbox_look_again) {
  outbox::pg::WakeLauncherAtCommit(true);
  outbox::admin::WarnOfMissingProcesses(kWithOneRoute);
  PG_RETURN_VOID();
}
