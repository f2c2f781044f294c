// What outbox.doctor() says of triggers on the tables of outbox: its own, which guard, and those of others, and of
// foreign keys onto them [P].
#include "admin/operate/adoption.h"
#include "admin/show/doctor.h"

namespace outbox::admin {

namespace {

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
  const int64 wrong = WrongGuards(Access::kRead);
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
  const size_t missing = TellOfMissing(findings);
  if (wrong == 0 && replaced.empty() && missing == 0) {
    findings->Ok("guards", "The triggers that keep rows of other servers apart are on.");
  } else if (wrong > 0) {
    findings->Problem("guards",
                      std::to_string(wrong) + (wrong == 1 ? " trigger that keeps" : " triggers that keep") +
                          " rows of other servers apart " + (wrong == 1 ? "was" : "were") +
                          " switched off or changed, as pg_restore --disable-triggers does it.",
                      "The keeper mends it within a minute, in a copy outbox.adopt() does; what came past them is "
                      "moved to outbox_internal.foreign_event.");
  }
}

namespace {

constexpr size_t kTold = 20;

// AFTER triggers of a row fire by name, and what one of them changes has all of its own triggers fire before the next
// one. So an emit_row trigger behind one that changes the same row emits the newer version of it first. What runs for
// foreign keys does not: its changes queue behind the statement's. Nor does what fires at commit. A trigger that is
// called for INSERT alone, or DELETE alone, has one event of a row. What a volatile function changes is not known,
// others change nothing. Partitions have triggers of their own beside those of their parents, and it is the parent's
// that is renamed.
constexpr const char* kFiresLate = R"(
WITH RECURSIVE emitting AS (
  SELECT t.oid, t.oid AS made, t.tgrelid, t.tgname, t.tgtype, t.tgenabled
  FROM pg_trigger t WHERE t.tgfoid = to_regprocedure('outbox.emit_row()') AND t.tgparentid = 0 AND NOT t.tginitdeferred
  UNION ALL
  SELECT t.oid, p.made, t.tgrelid, t.tgname, t.tgtype, t.tgenabled FROM emitting p JOIN pg_trigger t ON t.tgparentid = p.oid
), late AS (
  SELECT m.tgrelid, m.tgname, array_agg(DISTINCT o.tgname) AS others, array_agg(DISTINCT e.tgrelid) AS relations
  FROM emitting e JOIN pg_trigger m ON m.oid = e.made JOIN pg_trigger o ON o.tgrelid = e.tgrelid AND o.tgname < e.tgname
  WHERE e.tgenabled IN ('O', 'A') AND o.tgenabled IN ('O', 'A') AND NOT o.tgisinternal AND NOT o.tginitdeferred
    AND o.tgtype & 67 = 1 AND o.tgtype & e.tgtype & 28 <> 0 AND e.tgtype & 28 NOT IN (4, 8)
    AND o.tgfoid = ANY (ARRAY(SELECT p.oid FROM pg_proc p WHERE p.provolatile = 'v' AND p.pronamespace <> 'outbox'::regnamespace))
  GROUP BY m.oid, m.tgrelid, m.tgname
)
SELECT l.tgrelid::regclass::text, string_agg(quote_ident(l.tgname), ', ' ORDER BY l.tgname),
       (SELECT string_agg(DISTINCT quote_ident(o), ', ') FROM late k, unnest(k.others[1:5]) o WHERE k.tgrelid = l.tgrelid),
       string_agg(coalesce(format('ALTER TRIGGER %I ON %s RENAME TO ', l.tgname, l.tgrelid::regclass) || quote_ident(f.name) || ';',
                           format('Rename trigger %I so that its name comes first.', l.tgname)), ' ' ORDER BY l.tgname)
FROM late l LEFT JOIN LATERAL (
  SELECT (prefix || l.tgname)::name AS name FROM unnest('{00_,!00_}'::text[]) prefix
  WHERE (prefix || l.tgname)::name < l.others[1]
    AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = ANY (l.relations || l.tgrelid) AND t.tgname = (prefix || l.tgname)::name)
  ORDER BY prefix COLLATE "C" DESC LIMIT 1
) f ON true
GROUP BY l.tgrelid ORDER BY 1)";

// Returns how much there was to tell.
size_t CheckFiringOrder(Findings* findings) {
  const std::vector<Row> rows = RunSql(Access::kRead, kFiresLate);
  for (size_t i = 0; i < rows.size() && i < kTold; i++) {
    const Row& row = rows[i];
    findings->Warn(
        "triggers",
        "Trigger " + row[1].value() + " on " + row[0].value() + ", which calls outbox.emit_row(), fires after " +
            row[2].value() +
            ": of a row that is changed there once more the newer version is emitted first, and the older one "
            "last.",
        row[3].value() +
            " Triggers fire in the order of their names. (Right also where the other trigger is innocent. Or "
            "declare its function STABLE: then it can change no row.)");
  }
  if (rows.size() > kTold) {
    findings->Warn("triggers", "And there are " + std::to_string(rows.size() - kTold) + " more such tables.",
                   "Give triggers that call outbox.emit_row() names that come first, such as \"00_events\".");
  }
  return rows.size();
}

}  // namespace

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
  if (rows.size() + CheckFiringOrder(findings) == 0) {
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
