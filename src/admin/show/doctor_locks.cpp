// What outbox.doctor() says of sessions that hold tables of outbox, or rows of them [P].
#include "admin/lookup/try_lock.h"
#include "admin/show/doctor.h"
#include "pg/schemas.h"
#include "pg/wait.h"

extern "C" {
#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "utils/lsyscache.h"
}

namespace outbox::admin {

namespace {

// A table of outbox that cannot be locked for looking; stays empty where each can. (Days are looked at with the table
// that they are part of; tables in the schemas that are nobody's are not read.) Plain.
void FindLocked(std::string* name) {
  Relation classes = table_open(RelationRelationId, AccessShareLock);
  SysScanDesc scan = systable_beginscan(classes, InvalidOid, false, nullptr, 0, nullptr);
  List* tables = NIL;
  while (HeapTuple tuple = systable_getnext(scan)) {
    const auto* form = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));
    if ((form->relkind == RELKIND_RELATION || form->relkind == RELKIND_PARTITIONED_TABLE) && !form->relispartition &&
        pg::IsOurSchema(form->relnamespace)) {
      tables = lappend_oid(tables, form->oid);
    }
  }
  systable_endscan(scan);
  table_close(classes, AccessShareLock);
  ListCell* cell = nullptr;
  foreach (cell, tables) {
    const char* found = get_rel_name(lfirst_oid(cell));
    const bool looked_at =
        found != nullptr && strncmp(found, "inbox_", strlen("inbox_")) != 0;  // CheckInbox() has its own
    if (looked_at && !LockToLook(lfirst_oid(cell))) {
      *name = found;
      return;
    }
  }
}

}  // namespace

bool CheckLocks(Findings* findings) {
  constexpr int kLooks = 20;  // within two seconds: who makes a day table or a route has it locked for less
  constexpr long kPauseMillis = 100;
  std::string locked;
  for (int look = 0; look < kLooks; look++) {
    locked.clear();
    pg::Guard([&locked] { FindLocked(&locked); });
    if (locked.empty()) {
      return true;
    }
    pg::Guard([] { pg::WaitWhole(kPauseMillis, pg::WaitEventFor("OutboxLook")); });
  }
  const std::vector<Row> holders = RunSql(
      Access::kRead,
      "SELECT n.nspname || '.' || c.relname, coalesce(l.pid::text, ''), coalesce(nullif(a.application_name, ''), "
      "a.backend_type, ''), to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') "
      "FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace "
      "LEFT JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.mode = 'AccessExclusiveLock' "
      "AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) "
      "AND l.pid IS DISTINCT FROM pg_backend_pid() AND n.nspname IN ('outbox', 'outbox_internal') "
      "ORDER BY l.granted DESC, a.xact_start, 1 LIMIT 1");
  const std::string rest =
      " Workers that need it try again without end, and what doctor() would say of routes, lanes and the log is left "
      "out.";
  if (holders.empty()) {
    findings->Problem("locks", "The table \"" + locked + "\" of outbox is locked." + rest, "pg_locks says by whom.");
  } else if (const Row& holder = holders[0]; holder[1] == "") {
    findings->Problem("locks", holder[0].value() + " is locked by a prepared transaction." + rest,
                      "pg_prepared_xacts has it: COMMIT PREPARED or ROLLBACK PREPARED ends it.");
  } else {
    findings->Problem(
        "locks",
        holder[0].value() + " is locked by process " + holder[1].value() + " (" + holder[2].value() +
            "), in a transaction since " + holder[3].value_or("?") + " UTC." + rest,
        "SELECT * FROM pg_stat_activity WHERE pid = " + holder[1].value() + "; SELECT pg_terminate_backend(" +
            holder[1].value() +
            ") ends it, if it may end: a right of pg_signal_backend, and of a superuser's session of superusers only.");
  }
  return false;
}

namespace {

// Open transactions that have had locks for a while which outbox's own work takes for a moment, or never: rows of
// parked events and lanes (skip(), retry(), seek() in a transaction that stays open; FOR UPDATE by hand), and tables
// against those who write. Readers and emitters have none of these. Prepared ones have no process.
constexpr const char* kHolders = R"(
SELECT coalesce(l.pid::text, ''), string_agg(DISTINCT l.name, ', ' ORDER BY l.name) FILTER (WHERE l.of_table),
       string_agg(DISTINCT l.name, ', ' ORDER BY l.name) FILTER (WHERE NOT l.of_table),
       concat_ws(', ', coalesce(nullif(a.application_name, ''), a.backend_type), a.state),
       to_char(coalesce(a.xact_start, x.prepared) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS'), quote_literal(x.gid)
FROM (SELECT k.pid, k.virtualtransaction, c.oid::regclass::text AS name, k.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock') AS of_table
      FROM pg_locks k JOIN pg_class c ON c.oid = k.relation
      WHERE k.granted AND k.locktype = 'relation' AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        AND c.relkind IN ('r', 'p') AND c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[])
        AND (k.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock')
             OR k.mode IN ('RowShareLock', 'RowExclusiveLock') AND c.relname IN ('parked', 'lane', 'side_lane'))) l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN (pg_locks t JOIN pg_prepared_xacts x ON x.transaction = t.transactionid) ON l.pid IS NULL AND t.virtualtransaction = l.virtualtransaction
WHERE l.pid IS DISTINCT FROM pg_backend_pid() AND (a.backend_type = 'client backend' OR x.gid IS NOT NULL)
  AND coalesce(a.xact_start, x.prepared) < clock_timestamp() - interval '5 s'
GROUP BY l.pid, l.virtualtransaction, a.application_name, a.backend_type, a.state, a.xact_start, x.prepared, x.gid
ORDER BY coalesce(a.xact_start, x.prepared) LIMIT 10)";

}  // namespace

void CheckHolders(Findings* findings) {
  for (const Row& row : RunSql(Access::kRead, kHolders)) {
    const bool prepared = row[0] == "";
    const std::string who =
        prepared ? std::string("A prepared transaction") : "Process " + row[0].value() + " (" + row[3].value() + ")";
    const std::string since = ", in a transaction since " + row[4].value_or("?") + " UTC: ";
    const std::string end = prepared ? "ROLLBACK PREPARED " + row[5].value_or("...") + " ends it, or COMMIT PREPARED."
                                     : "SELECT pg_terminate_backend(" + row[0].value() + ") ends it, if it may end.";
    if (row[1]) {
      // Only of the log emit() waits for a lock.
      const bool log = row[1]->find("outbox_internal.log") != std::string::npos;
      findings->Problem("held",
                        who + " has locked " + *row[1] + " against those who write" + since +
                            (log ? "emit() and workers that write there wait for that."
                                 : "workers that write there try again without end; emit() does not wait for it."),
                        end);
    }
    if (row[2]) {
      findings->Warn("held",
                     who + " may have rows of " + *row[2] + " locked" + since +
                         "parked events that it has locked, and what waits behind them, do not go before it ends.",
                     (prepared ? "" : "outbox.blocked_key says what waits for whom. ") + end);
    }
  }
}

}  // namespace outbox::admin
