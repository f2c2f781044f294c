// What outbox.doctor() says of the inbox, where it is used [P]. Takes no lock that anybody waits for, and waits for
// none.
#include "admin/lookup/try_lock.h"
#include "admin/show/doctor.h"
#include "pg/schemas.h"

namespace outbox::admin {

namespace {

// The row of outbox_internal.inbox_kept, and what follows from it by today's date: whether it is of a day that no
// retention gives; how many days are kept beyond the retention (negative: so many are lacking); the table of the first
// day that has marks; the day that the retention gives; when it gives the first one; the first day that has marks, and
// how many days are beyond the retention from there.
constexpr const char* kKept = R"(
SELECT k.kept_from::text, k.kept_from >= t.today, w.wanted - k.kept_from, current_setting('outbox.inbox_retention'),
       to_char((e.first - date '1970-01-01') % 32, 'FM00'), w.wanted::text, (k.kept_from + (t.today - w.wanted))::text,
       e.first::text, w.wanted - e.first
FROM outbox_internal.inbox_kept k, LATERAL (SELECT least(k.emptied_to, k.kept_from)) e (first), LATERAL (SELECT (now() AT TIME ZONE 'UTC')::date) t (today),
     LATERAL (SELECT ((now() - current_setting('outbox.inbox_retention')::interval) AT TIME ZONE 'UTC')::date) w (wanted))";

// Tables of the ring without what makes each id be met once.
constexpr const char* kUnguarded = R"(
SELECT 'outbox_internal.' || t.name FROM (
  SELECT format('inbox_day_%s', to_char(d, 'FM00')) FROM generate_series(0, 31) d UNION ALL VALUES ('inbox_undated_a'), ('inbox_undated_b')) t (name)
WHERE NOT EXISTS (
  SELECT FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid
  WHERE c.relnamespace = 'outbox_internal'::regnamespace AND c.relname = t.name AND i.indisprimary AND i.indisvalid)
ORDER BY 1)";

// Who has a table in hand, so that it cannot be emptied; or a snapshot that sees it kept.
constexpr const char* kHolder = R"(
SELECT CASE WHEN l.pid IS NULL THEN 'a prepared transaction'
            ELSE format('process %s (%s), in a transaction since %s UTC', l.pid, coalesce(nullif(a.application_name, ''), a.backend_type, '?'),
                        to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')) END
FROM (
  SELECT l.pid FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
  WHERE l.granted AND c.relnamespace = 'outbox_internal'::regnamespace AND c.relname = 'inbox_day_' || $1
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  UNION ALL
  SELECT s.pid FROM pg_stat_activity s, outbox_internal.inbox_kept k
  WHERE s.datname = current_database() AND k.emptied_to < k.kept_from AND age(s.backend_xmin) >= age(k.xmin)) l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.pid IS DISTINCT FROM pg_backend_pid()
ORDER BY a.xact_start LIMIT 1)";

// Where outbox.inbox_expired is 'accept' for more than a session: what sets it. (As it was typed: 'Accept' is the
// same.)
constexpr const char* kAccepts = R"(
SELECT CASE WHEN s.setrole = 0 AND s.setdatabase = 0 THEN 'ALTER ROLE ALL RESET outbox.inbox_expired;'
            WHEN s.setrole = 0 THEN format('ALTER DATABASE %I RESET outbox.inbox_expired;', current_database())
            WHEN s.setdatabase = 0 THEN format('ALTER ROLE %I RESET outbox.inbox_expired;', pg_get_userbyid(s.setrole))
            ELSE format('ALTER ROLE %I IN DATABASE %I RESET outbox.inbox_expired;', pg_get_userbyid(s.setrole), current_database()) END
FROM pg_db_role_setting s, unnest(s.setconfig) c
WHERE lower(c) = 'outbox.inbox_expired=accept' AND s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
UNION ALL
SELECT 'ALTER SYSTEM RESET outbox.inbox_expired; SELECT pg_reload_conf();'
FROM pg_settings p WHERE p.name = 'outbox.inbox_expired' AND p.source = 'configuration file' AND p.setting = 'accept'
ORDER BY 1)";

// Roles that have a retention of their own: it does not count, and each of their sessions says so.
constexpr const char* kOwnRetentions = R"(
SELECT pg_get_userbyid(s.setrole), format('ALTER ROLE %I%s RESET outbox.inbox_retention;', pg_get_userbyid(s.setrole),
       CASE WHEN s.setdatabase <> 0 THEN format(' IN DATABASE %I', current_database()) ELSE '' END)
FROM pg_db_role_setting s, unnest(s.setconfig) c
WHERE s.setrole <> 0 AND lower(c) LIKE 'outbox.inbox_retention=%' AND s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
ORDER BY 2)";

// Who has waited for half a minute, in a transaction that receives, for another that does; by whom they wait for, the
// first of them. A mark that is not committed is waited for by the transaction's id alone, which says nothing of the
// table: both have the same one in hand, and what waits for a row that somebody has changed, a consumer's own work,
// has that row's own lock as well.
constexpr const char* kWaiters = R"(
WITH l AS MATERIALIZED (
  SELECT l.*, c.relname LIKE 'inbox\_%' AND c.relnamespace = 'outbox_internal'::regnamespace AS is_inbox
  FROM pg_locks l LEFT JOIN pg_class c ON c.oid = l.relation
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())),
w AS (
  SELECT DISTINCT ON (h.virtualtransaction) w.pid, w.waitstart, h.pid AS holder, w.transactionid,
         count(*) OVER (PARTITION BY h.virtualtransaction) - 1 AS others
  FROM l w JOIN l h ON h.locktype = 'transactionid' AND h.transactionid = w.transactionid AND h.granted
  WHERE w.locktype = 'transactionid' AND NOT w.granted AND w.waitstart < clock_timestamp() - interval '30 s'
    AND EXISTS (SELECT FROM l a JOIN l b ON b.relation = a.relation AND b.locktype = 'relation' AND b.granted AND b.mode = 'RowExclusiveLock'
                WHERE a.pid = w.pid AND a.is_inbox AND a.locktype = 'relation' AND a.granted AND a.mode = 'RowExclusiveLock'
                  AND b.virtualtransaction = h.virtualtransaction)
    AND NOT EXISTS (SELECT FROM l t WHERE t.pid = w.pid AND t.locktype = 'tuple' AND t.granted AND t.is_inbox IS NOT TRUE)
  ORDER BY h.virtualtransaction, w.waitstart, w.pid)
SELECT format('Process %s (%s) receives as a consumer, and has waited since %s UTC for ', w.pid, coalesce(nullif(a.application_name, ''), a.backend_type, '?'),
              to_char(w.waitstart AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')),
       CASE WHEN w.holder IS NULL THEN 'a prepared transaction'
            ELSE format('process %s (%s)', w.holder, concat_ws(', ', coalesce(nullif(h.application_name, ''), h.backend_type, '?'), h.state)) END,
       to_char(coalesce(h.xact_start, x.prepared) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS'), nullif(w.others, 0)::text,
       CASE WHEN w.holder IS NULL THEN format('ROLLBACK PREPARED %L ends it, or COMMIT PREPARED.', x.gid)
            ELSE format('If its client is gone, SELECT pg_terminate_backend(%s) ends it, and who waits handles the event. ALTER ROLE %s SET idle_in_transaction_session_timeout = ''1min'' has the server end the next one.',
                        w.holder, coalesce(quote_ident(h.usename), '...')) END
FROM w LEFT JOIN pg_stat_activity a ON a.pid = w.pid LEFT JOIN pg_stat_activity h ON h.pid = w.holder
  LEFT JOIN pg_prepared_xacts x ON w.holder IS NULL AND x.transaction = w.transactionid
ORDER BY w.waitstart, w.pid LIMIT 10)";

// Returns whether nobody waits for long.
bool CheckWaiters(Findings* findings) {
  const std::vector<Row> waiters = RunSql(Access::kRead, kWaiters);
  for (const Row& row : waiters) {
    findings->Warn("inbox",
                   row[0].value() + row[1].value() +
                       ", which has marked what comes to both and has not committed, in a transaction since " +
                       row[2].value_or("?") + " UTC." + (row[3] ? " " + *row[3] + " more wait for it." : ""),
                   row[4].value());
  }
  return waiters.empty();
}

}  // namespace

// Nothing where no mark was ever made, and where the extension is of a version without an inbox.
void CheckInbox(Findings* findings) {
  const bool here = pg::Guard([] { return OidIsValid(pg::FindOurRelation("inbox_kept")); });
  if (!here) {
    return;
  }
  if (!pg::Guard([] { return LockToLook(pg::FindOurRelation("inbox_kept")); })) {
    findings->Warn("inbox", "outbox_internal.inbox_kept is locked, and every receive() waits for that.",
                   "pg_locks says by whom; pg_terminate_backend(), a right of pg_signal_backend, ends it.");
    return;
  }
  bool fine = CheckWaiters(findings);
  const std::vector<Row> rows = RunSql(Access::kRead, kKept);
  if (rows.empty()) {
    return;
  }
  const Row& kept = rows[0];
  const std::string& from = kept[0].value();
  const int late = static_cast<int>(Number(kept[2]));         // days that could have gone
  const int not_emptied = static_cast<int>(Number(kept[8]));  // with those that wait to be emptied
  const std::string retention = "outbox.inbox_retention (" + kept[3].value() + ")";
  for (const Row& row : RunSql(Access::kRead, kUnguarded)) {
    fine = false;
    findings->Problem("inbox", row[0].value() + " has no valid primary key: receive() fails for ids of its days.",
                      "REINDEX TABLE " + row[0].value() + ", or make the primary key (consumer, event_id) again.");
  }
  if (kept[1] == "t") {
    fine = false;
    findings->Problem("inbox",
                      "Marks are kept from " + from +
                          " on, and events of the days before count as older than what the inbox remembers. The clocks "
                          "of this server and of the producer were ahead once.",
                      "When nothing can come twice, a superuser puts it back: UPDATE outbox_internal.inbox_kept SET "
                      "kept_from = '" +
                          kept[5].value() + "';");
  }
  constexpr int kLate = 2;
  if (not_emptied >= kLate) {
    const std::vector<Row> holders = RunSql(Access::kRead, kHolder, {kept[4]});
    if (!holders.empty()) {
      fine = false;
      findings->Warn("inbox",
                     "Marks of " + kept[7].value() + " and later days are kept beyond " + retention +
                         ": outbox_internal.inbox_day_" + kept[4].value() + " cannot be emptied, it is in use by " +
                         holders[0][0].value() + ".",
                     "Nobody waits for it, and ids are told apart as ever. It goes when that has ended.");
    }
  }
  for (const Row& row : RunSql(Access::kRead, kAccepts)) {
    fine = false;
    findings->Warn(
        "inbox",
        "outbox.inbox_expired is \"accept\" for more than a session: an event that comes again after " + retention +
            " is handled again.",
        "It is for a new consumer's first load, and by SET LOCAL for an event that comes late. " + row[0].value());
  }
  for (const Row& row : RunSql(Access::kRead, kOwnRetentions)) {
    fine = false;
    findings->Warn("inbox",
                   "outbox.inbox_retention of role " + row[0].value() + " does not count: marks of all are kept by " +
                       retention + ", the database's or the server's.",
                   "ALTER DATABASE ... SET outbox.inbox_retention is for all. " + row[1].value());
  }
  if (fine) {
    findings->Ok("inbox",
                 "Consumers receive here; marks are kept from " + from + " on" +
                     (late < 0 ? ", as far back as " + retention + " says from " + kept[6].value() + " on." : "."));
  }
}

namespace {

// By events, by keys or by positions.
bool ConsumersReceive() {
  for (const char* name : {"inbox_kept", "inbox_key", "inbox_stream"}) {
    if (!pg::Guard([name] { return OidIsValid(pg::FindOurRelation(name)) && LockToLook(pg::FindOurRelation(name)); })) {
      return false;
    }
  }
  return RunSql(Access::kRead,
                "SELECT EXISTS (SELECT FROM outbox_internal.inbox_kept) OR EXISTS (SELECT FROM "
                "outbox_internal.inbox_key) OR EXISTS (SELECT FROM outbox_internal.inbox_stream)")[0][0] == "t";
}

}  // namespace

bool InboxAlone() {
  return ConsumersReceive() && pg::Guard([] { return LockToLook(pg::FindOurRelation("identity")); }) &&
         RunSql(Access::kRead, "SELECT NOT EXISTS (SELECT FROM outbox_internal.identity)")[0][0] == "t";
}

bool NothingButInbox() {
  return RunSql(Access::kRead, "SELECT EXISTS (SELECT FROM outbox.route)")[0][0] == "f" && ConsumersReceive() &&
         RunSql(Access::kRead, "SELECT EXISTS (SELECT FROM outbox_internal.log)")[0][0] == "f";
}

}  // namespace outbox::admin
