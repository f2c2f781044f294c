// What outbox.doctor() says of triggers that call outbox.emit_row(): which of them emit nothing, stop what writes, or
// emit in the wrong order [P].
#include "admin/show/doctor.h"

namespace outbox::admin {

namespace {

constexpr size_t kTold = 20;

// Tells of the first rows, and of the others how many there are. Returns how much there was to tell.
template <typename TellOf>
size_t TellOfEach(const std::vector<Row>& rows, Findings* findings, const char* what, const char* what_to_do,
                  TellOf&& tell_of) {
  for (size_t i = 0; i < rows.size() && i < kTold; i++) {
    tell_of(rows[i]);
  }
  if (rows.size() > kTold) {
    findings->Warn("triggers", "And there are " + std::to_string(rows.size() - kTold) + " more such " + what + ".",
                   what_to_do);
  }
  return rows.size();
}

std::string RowTrigger(const Cell& name, const Cell& table) {
  return "Trigger " + name.value() + " on " + table.value() + ", which calls outbox.emit_row(), ";
}

// One that was switched off; and an ordinary one of a table into which a subscription brings rows, whose apply worker
// fires those alone that are ALWAYS or REPLICA. A row comes to a partition whether the subscription names that one or,
// by publish_via_partition_root, its parent, and it is the partition's own trigger that fires. Told of is the parent's
// where it is the same there. (Who may not read pg_subscription_rel, which is everybody's to begin with, is told that
// the check failed.)
constexpr const char* kSilent = R"(
WITH RECURSIVE emitting AS (
  SELECT t.oid, t.oid AS made, t.tgrelid, t.tgenabled
  FROM pg_trigger t WHERE t.tgfoid = to_regprocedure('outbox.emit_row()') AND t.tgparentid = 0
  UNION ALL
  SELECT t.oid, p.made, t.tgrelid, t.tgenabled FROM emitting p JOIN pg_trigger t ON t.tgparentid = p.oid
), subscribed AS (
  SELECT r.srrelid AS relation FROM pg_subscription_rel r
  UNION
  SELECT c.oid FROM subscribed s JOIN pg_inherits i ON i.inhparent = s.relation
  JOIN pg_class c ON c.oid = i.inhrelid AND c.relispartition
), silent AS (
  SELECT CASE WHEN m.tgenabled = e.tgenabled THEN m.oid ELSE e.oid END AS told,
         EXISTS (SELECT FROM subscribed s WHERE s.relation = e.tgrelid) AS brought
  FROM emitting e JOIN pg_trigger m ON m.oid = e.made JOIN pg_class c ON c.oid = e.tgrelid
  WHERE c.relkind <> 'p' AND (e.tgenabled = 'D' OR e.tgenabled = 'O' AND e.tgrelid IN (SELECT s.relation FROM subscribed s))
)
SELECT quote_ident(t.tgname), t.tgrelid::regclass::text, t.tgenabled = 'D', bool_or(s.brought)
FROM silent s JOIN pg_trigger t ON t.oid = s.told GROUP BY t.oid, t.tgname, t.tgrelid, t.tgenabled ORDER BY 2, 1)";

size_t CheckSilent(Findings* findings) {
  return TellOfEach(
      RunSql(Access::kRead, kSilent), findings, "triggers",
      "See pg_trigger.tgenabled of triggers that call outbox.emit_row().", [findings](const Row& row) {
        const bool off = row[2] == "t";
        const bool brought = row[3] == "t";
        const std::string on_table = row[0].value() + " ON " + row[1].value();
        findings->Warn(
            "triggers",
            RowTrigger(row[0], row[1]) +
                (off ? "is switched off: rows that change there emit nothing."
                     : "does not fire for what a subscription brings: such rows emit nothing."),
            "ALTER TABLE " + row[1].value() + " ENABLE " + (brought ? "ALWAYS " : "") + "TRIGGER " + row[0].value() +
                "; " +
                (off ? "Or, where that is meant: DROP TRIGGER " + on_table + ";"
                     : std::string("(Where the server that they come from emits them, leave it as it is.)")));
      });
}

// What a migration of columns has left behind. Arguments are the aggregate type, the key column, the beginning of the
// event type, and columns to leave out, each with a zero byte behind it.
constexpr const char* kColumnsGone = R"(
SELECT quote_ident(t.tgname), t.tgrelid::regclass::text,
       string_agg('"' || a.value || '"', ', ' ORDER BY a.n) FILTER (WHERE a.gone), bool_or(a.gone AND a.n = 2),
       format('BEGIN; DROP TRIGGER %I ON %s; %s EXECUTE FUNCTION outbox.emit_row(%s);%s COMMIT;', t.tgname, t.tgrelid::regclass,
              (regexp_match(pg_get_triggerdef(t.oid), '^(.*) EXECUTE FUNCTION '))[1],
              string_agg(quote_literal(a.value), ', ' ORDER BY a.n) FILTER (WHERE NOT a.gone OR a.n = 2),
              format(CASE t.tgenabled WHEN 'A' THEN ' ALTER TABLE %s ENABLE ALWAYS TRIGGER %I;'
                                      WHEN 'R' THEN ' ALTER TABLE %s ENABLE REPLICA TRIGGER %I;' ELSE '' END,
                     t.tgrelid::regclass, t.tgname))
FROM pg_trigger t, LATERAL (
  SELECT m.n, v.value, (m.n = 2 OR m.n > 3) AND NOT EXISTS (
    SELECT FROM pg_attribute c WHERE c.attrelid = t.tgrelid AND c.attname::text = v.value AND c.attnum > 0 AND NOT c.attisdropped) AS gone
  FROM regexp_matches(encode(t.tgargs, 'hex'), '((?:(?!00)..)*)00', 'g') WITH ORDINALITY m (hex, n),
       convert_from(decode(m.hex[1], 'hex'), getdatabaseencoding()) v (value)
) a
WHERE t.tgfoid = to_regprocedure('outbox.emit_row()') AND t.tgparentid = 0 AND t.tgenabled <> 'D'
GROUP BY t.oid, t.tgname, t.tgrelid, t.tgenabled HAVING bool_or(a.gone) ORDER BY 2, 1)";

size_t CheckColumns(Findings* findings) {
  return TellOfEach(RunSql(Access::kRead, kColumnsGone), findings, "triggers", "Mend those that are named first.",
                    [findings](const Row& row) {
                      findings->Problem("triggers",
                                        RowTrigger(row[0], row[1]) + "names what is no column there, " +
                                            row[2].value() + ": every write that fires it fails.",
                                        (row[3] == "t" ? "With the key column's name as it is now in place of the old "
                                                         "one: "
                                                       : "If it was dropped: ") +
                                            row[4].value() +
                                            " A column to leave out that has another name now stands there by that "
                                            "name, or it is published.");
                    });
}

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

size_t CheckFiringOrder(Findings* findings) {
  return TellOfEach(RunSql(Access::kRead, kFiresLate), findings, "tables",
                    "Give triggers that call outbox.emit_row() names that come first, such as \"00_events\".",
                    [findings](const Row& row) {
                      findings->Warn(
                          "triggers",
                          RowTrigger(row[1], row[0]) + "fires after " + row[2].value() +
                              ": of a row that is changed there once more the newer version is emitted first, and the "
                              "older one last.",
                          row[3].value() +
                              " Triggers fire in the order of their names. (Right also where the other trigger is "
                              "innocent. Or declare its function STABLE: then it can change no row.)");
                    });
}

}  // namespace

size_t CheckRowTriggers(Findings* findings) {
  return CheckColumns(findings) + CheckSilent(findings) + CheckFiringOrder(findings);
}

}  // namespace outbox::admin
