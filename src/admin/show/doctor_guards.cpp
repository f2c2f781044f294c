// What outbox.doctor() says of triggers on the tables of outbox: its own, which guard, and those of others, and of
// foreign keys onto them [P].
#include "admin/lookup/processes.h"
#include "admin/show/doctor.h"
#include "pg/shared.h"

namespace outbox::admin {

namespace {

// Switched off, or for some sessions. Where the outbox is this server's, its keeper has them on again, and so has
// adopt(): they alone look for what came past the guard of the log. Where nothing is emitted, as in a database of
// consumers, no keeper runs, and no row came past. How many are told of.
size_t TellOfWrong(Findings* findings) {
  const std::vector<Row> rows = RunSql(
      Access::kRead,
      "SELECT w.trigger_name = 'log_guard', 'Trigger ' || quote_ident(w.trigger_name) || ' of ' || "
      "min(w.relation::regclass::text) || CASE WHEN count(*) > 1 THEN format(' and %s more', count(*) - 1) ELSE '' "
      "END, string_agg(format('ALTER TABLE %s ENABLE %s TRIGGER %I;', w.relation::regclass, CASE w.trigger_name WHEN "
      "'ignore_replicated' THEN 'REPLICA' ELSE 'ALWAYS' END, w.trigger_name), ' ' ORDER BY w.relation::regclass::text) "
      "FROM outbox_internal.wrong_guard w WHERE NOT EXISTS (SELECT FROM outbox_internal.missing_trigger m "
      "WHERE m.relation = w.relation AND m.trigger_name = w.trigger_name) "
      "GROUP BY w.trigger_name ORDER BY 1 DESC, w.trigger_name");
  if (rows.empty()) {
    return 0;
  }
  const pg::Identities identities = CountIdentities();
  const bool kept = identities.IsInUse() && pg::Shared() != nullptr;
  for (const Row& row : rows) {
    const bool of_log = row[0] == "t";
    const std::string moves = of_log ? ", and moves what came past it to outbox_internal.foreign_event." : ".";
    findings->Problem("guards",
                      row[1].value() + " was switched off or changed, as pg_restore --disable-triggers does it, and " +
                          (of_log ? "rows of other servers get into the log." : "does not fire as it should."),
                      kept                           ? "The keeper mends it within a minute" + moves
                      : of_log && identities.all > 0 ? "SELECT outbox.adopt() mends it" + moves
                                                     : row[2].value());
  }
  return rows.size();
}

// Dropped under outbox.allow_loss, or where the library was not loaded; or replaced there. How many are told of.
size_t TellOfMissing(Findings* findings) {
  const std::vector<Row> rows = RunSql(Access::kRead,
                                       "SELECT m.relation::text, quote_ident(m.trigger_name), m.changed, "
                                       "regexp_replace(m.definition, '^CREATE ', 'CREATE OR REPLACE '), m.enabled "
                                       "FROM outbox_internal.missing_trigger m ORDER BY 1, 2 LIMIT 20");
  for (const Row& row : rows) {
    const std::string table = row[0].value();
    const std::string trigger = row[1].value();
    const char* firing = row[4] == "A" ? "ALWAYS" : row[4] == "R" ? "REPLICA" : nullptr;
    findings->Problem(
        "guards",
        "Trigger " + trigger + " of " + table +
            (row[2] == "t" ? " is not the one that outbox has made" : " is not there any more") +
            ": what it guards goes without a word.",
        (row[2] == "t" ? "SET outbox.allow_loss = on; " : "") + row[3].value() + ";" +
            (firing != nullptr ? " ALTER TABLE " + table + " ENABLE " + firing + " TRIGGER " + trigger + ";" : ""));
  }
  return rows.size();
}

}  // namespace

// Checks the triggers that keep foreign rows out of the tables, and what is undelivered in them.
void CheckGuards(Findings* findings) {
  // Triggers whose function does something else since CREATE OR REPLACE.
  const std::vector<Row> replaced = RunSql(
      Access::kRead,
      "SELECT p.proname, quote_literal(v.probin) FROM pg_proc p JOIN pg_proc v ON v.proname = 'version' AND "
      "v.pronamespace = 'outbox'::regnamespace WHERE p.pronamespace = 'outbox_internal'::regnamespace AND "
      "p.proname IN "
      "('refuse_loss', 'refuse_change', 'refuse_forgetting', 'note_route', 'ignore_replicated', 'read_again') AND "
      "(p.prosrc <> 'outbox_' || "
      "p.proname OR p.probin IS DISTINCT FROM v.probin OR p.proconfig IS NOT NULL) ORDER BY 1");
  for (const Row& row : replaced) {
    const std::string name = row[0].value();
    findings->Problem(
        "guards",
        "The function outbox_internal." + name + "() was replaced: triggers that call it guard nothing any more.",
        "SET outbox.allow_loss = on; CREATE OR REPLACE FUNCTION outbox_internal." + name +
            "() RETURNS trigger LANGUAGE c VOLATILE PARALLEL UNSAFE AS " + row[1].value() + ", 'outbox_" + name +
            "'; ALTER FUNCTION outbox_internal." + name + "() RESET ALL;");
  }
  const size_t wrong = TellOfWrong(findings);
  const size_t missing = TellOfMissing(findings);
  if (wrong + missing + replaced.size() == 0) {
    findings->Ok("guards", "The triggers that keep rows of other servers apart are on.");
  }
}

// Others' may look, and not take (trigger_commands.h). What they raise comes up in workers and in emitters.
void CheckTriggers(Findings* findings) {
  const std::vector<Row> rows = RunSql(
      Access::kRead,
      "SELECT quote_ident(t.tgname), t.tgrelid::regclass::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
      "WHERE c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND NOT t.tgisinternal "
      "AND t.tgparentid = 0 AND t.tgenabled <> 'D' AND NOT EXISTS (SELECT FROM pg_depend d, pg_extension e "
      "WHERE d.classid = 'pg_proc'::regclass AND d.objid = t.tgfoid AND d.deptype = 'e' AND d.refobjid = e.oid "
      "AND e.extname = 'outbox') ORDER BY 2, 1 LIMIT 20");
  for (const Row& row : rows) {
    findings->Warn("triggers",
                   "Trigger " + row[0].value() + " on " + row[1].value() +
                       " is not one of outbox: an error in it stops what writes there, emitters or workers.",
                   "DROP TRIGGER " + row[0].value() + " ON " + row[1].value() + ";");
  }
  if (rows.size() + CheckRowTriggers(findings) == 0) {
    findings->Ok("triggers", "Nobody has added a trigger to the tables of outbox; those that emit rows fire first.");
  }
}

// None is let be made (foreign_keys.h), but one may have been there before.
void CheckForeignKeys(Findings* findings) {
  const std::vector<Row> rows = RunSql(
      Access::kRead,
      "WITH ours AS MATERIALIZED (SELECT d.objid AS id FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid "
      "WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' "
      "AND e.extname = 'outbox') "
      "SELECT quote_ident(k.conname), k.conrelid::regclass::text, k.confrelid::regclass::text FROM "
      "pg_constraint k JOIN ours o ON o.id = k.confrelid WHERE k.contype = 'f' AND k.conparentid = 0 "
      "AND k.conrelid NOT IN (SELECT id FROM ours) ORDER BY 2, 1 LIMIT 20");
  for (const Row& row : rows) {
    findings->Problem("foreign keys",
                      "Foreign key " + row[0].value() + " of " + row[1].value() + " refers to " + row[2].value() +
                          ": workers cannot delete or change a row that is referred to, and send again what they "
                          "have sent.",
                      "ALTER TABLE " + row[1].value() + " DROP CONSTRAINT " + row[0].value() + ";");
  }
  if (rows.empty()) {
    findings->Ok("foreign keys", "No foreign key of others refers to the tables of outbox.");
  }
}

}  // namespace outbox::admin
