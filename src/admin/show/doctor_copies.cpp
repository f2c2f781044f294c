// What outbox.doctor() says of rows that come and go by other ways than emit() and the workers: dumps, publications,
// subscriptions [P].
#include "admin/operate/adoption.h"
#include "admin/show/doctor.h"
#include "base/count_text.h"

namespace outbox::admin {

// Checks a restored dump that is being adopted.
void CheckAdoption(Findings* findings) {
  std::vector<Row> adoption =
      RunSql(Access::kRead, "SELECT phase = 'pending', sent, kept, done_to, begun_at FROM outbox_internal.adoption");
  if (!adoption.empty()) {
    const Row& row = adoption[0];
    findings->Warn("adoption",
                   std::string(row[0] == "t" ? "What the restored dump had not delivered is being moved into the log: "
                                             : "What the restored dump had delivered is being moved into the log: ") +
                       CountText(Number(row[0] == "t" ? row[1] : row[2]), "event is", "events are") + " there" +
                       (row[3] == "-infinity" ? "" : ", up to " + row[3].value()) + ".",
                   row[0] == "t" ? "The keeper does it, in batches; then its routes begin. SELECT outbox.adopt() helps."
                                 : "The keeper does it, in batches, beside the routes, which work. Until then "
                                   "outbox.replay() and outbox.status() do not know all of it.");
    return;
  }
  Cell routes = RunSql(
      Access::kRead,
      "SELECT string_agg(DISTINCT quote_literal(r.name), ', ') FROM outbox.route r JOIN outbox_internal.lane l "
      "ON l.route_id = r.id WHERE coalesce(l.home <> outbox_internal.home() AND NOT EXISTS (SELECT FROM "
      "outbox_internal.origin o WHERE l.home = o.system_identifier::text || '/' || o.database::text), l.home IS NULL)")
      [0][0];
  if (routes) {
    findings->Problem(
        "adoption", "A dump has brought lanes, whose positions mean nothing here: no worker reads for " + *routes + ".",
        "SELECT outbox.adopt() has them go on where they were.");
  } else {
    findings->Ok("adoption", "Nothing of a restored dump waits to be adopted.");
  }
}

void CheckForeignRows(Findings* findings) {
  constexpr int64 kCounted = 100'000;
  std::string count =
      RunSql(Access::kRead, "SELECT count(*) FROM (SELECT FROM outbox_internal.foreign_event LIMIT $1::bigint) f",
             {Cell(std::to_string(kCounted))})[0][0]
          .value();
  if (count == std::to_string(kCounted)) {
    count = "At least " + count;
  }
  if (count == "0") {
    findings->Ok("foreign rows", "Nothing but emit() wrote to the log.");
  } else {
    findings->Warn("foreign rows",
                   count + (count == "1" ? " row" : " rows") + " came into the log another way than by emit().",
                   "They wait in outbox_internal.foreign_event and are not published before outbox.adopt().");
  }
}

void CheckPublications(Findings* findings) {
  Row row = RunSql(Access::kRead,
                   "SELECT string_agg(quote_ident(p.pubname), ', ' ORDER BY p.pubname) FROM pg_publication p "
                   "WHERE p.puballtables OR EXISTS (SELECT FROM pg_publication_namespace n WHERE n.pnpubid = p.oid "
                   "AND n.pnnspid = ANY ('{outbox,outbox_internal}'::regnamespace[])) OR EXISTS (SELECT FROM "
                   "pg_publication_rel r, pg_class c "
                   "WHERE r.prpubid = p.oid AND c.oid = r.prrelid AND c.relnamespace = ANY "
                   "('{outbox,outbox_internal}'::regnamespace[]))")[0];
  if (row[0]) {
    findings->Warn(
        "publications", "The log is published to other servers, by " + *row[0] + ".",
        "Subscribers need the extension, preloaded: their keepers make the day tables without which the "
        "subscription stops, for all tables. They keep the events in outbox_internal.foreign_event and send nothing. "
        "Publish your schemas by name, without outbox and outbox_internal, if you do not want that.");
  } else {
    findings->Ok("publications", "No publication carries the log.");
  }
}

// A subscription needs tables with the publisher's names, and stops for all of them if one is missing.
void CheckSubscriptions(Findings* findings) {
  Row row = RunSql(Access::kRead,
                   "SELECT string_agg(quote_ident(s.subname), ', ' ORDER BY s.subname) FROM pg_subscription s WHERE "
                   "s.subenabled AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database()) "
                   "AND EXISTS (SELECT FROM pg_subscription_rel r, pg_class c WHERE r.srsubid = s.oid "
                   "AND c.oid = r.srrelid AND c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]))")[0];
  if (!row[0]) {
    findings->Ok("subscriptions", "No subscription brings the outbox of another server.");
    return;
  }
  std::vector<Row> missing =
      RunSql(Access::kRead,
             "SELECT 'outbox_internal.' || k.kind || to_char(d, '_YYYYMMDD') FROM generate_series(0, 1) n, "
             "LATERAL (SELECT (now() AT TIME ZONE 'UTC')::date + n) t (d), "
             "unnest('{log,progress,tick,outcome,emit_key}'::text[]) k (kind) "
             "WHERE to_regclass('outbox_internal.' || k.kind || to_char(d, '_YYYYMMDD')) IS NULL ORDER BY d, 1");
  if (!missing.empty()) {
    findings->Problem("subscriptions",
                      "Subscription " + *row[0] + " brings the outbox of another server, and there is no table " +
                          missing[0][0].value() + ": it stops, for all tables, when the publisher writes to its own.",
                      "The keeper makes them ahead, where outbox is in shared_preload_libraries and "
                      "max_worker_processes has room. Or publish your schemas by name, without outbox.");
  } else {
    findings->Ok("subscriptions", "Subscription " + *row[0] +
                                      " brings the outbox of another server; the day tables that it needs are there.");
  }
}

}  // namespace outbox::admin
