// What outbox.doctor() says of triggers that call outbox.emit_row(): which of them emit nothing, stop what writes, emit
// twice or in the wrong order [P].
#include "admin/show/doctor.h"

namespace outbox::admin {

namespace {

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
      RunSql(Access::kRead, kSilent), findings, "triggers", "triggers",
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
  return TellOfEach(RunSql(Access::kRead, kColumnsGone), findings, "triggers", "triggers",
                    "Mend those that are named first.", [findings](const Row& row) {
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

// What emit_row() is given, by name: a trigger's arguments, without the zero byte that is behind each.
constexpr const char* kGiven = R"(
LATERAL (
  SELECT coalesce(max(v.value) FILTER (WHERE m.n = 1), '') AS aggregate_type, coalesce(max(v.value) FILTER (WHERE m.n = 2), '') AS key_column,
         coalesce(max(v.value) FILTER (WHERE m.n = 3), '') AS prefix,
         string_agg(quote_literal(CASE WHEN m.n = 3 AND v.value = 'null' THEN '' ELSE v.value END), ', ' ORDER BY m.n) AS listed
  FROM regexp_matches(encode(t.tgargs, 'hex'), '((?:(?!00)..)*)00', 'g') WITH ORDINALITY m (hex, n),
       convert_from(decode(m.hex[1], 'hex'), getdatabaseencoding()) v (value)
) g
)";

// What emit_row() refuses when it is called, and the server takes when the trigger is created. A statement for a view
// has no rows of its own, and TRUNCATE none at all: there is nothing to type in place of those.
constexpr const char* kMisused = R"(
SELECT quote_ident(t.tgname), t.tgrelid::regclass::text,
       CASE WHEN t.tgtype & 64 <> 0 THEN 'is an INSTEAD OF trigger' WHEN t.tgtype & 2 <> 0 THEN 'is a BEFORE trigger'
            WHEN t.tgtype & 1 = 0 THEN 'is FOR EACH STATEMENT' WHEN t.tgnargs = 0 THEN 'has no arguments'
            WHEN t.tgnargs = 1 THEN 'has no key column' ELSE 'has an empty aggregate type' END,
       CASE WHEN t.tgtype & 64 = 0 AND t.tgtype & 28 <> 0 THEN
         format('CREATE TRIGGER %I AFTER %s ON %s FOR EACH ROW EXECUTE FUNCTION outbox.emit_row(%s);', t.tgname,
                concat_ws(' OR ', CASE WHEN t.tgtype & 4 <> 0 THEN 'INSERT' END, CASE WHEN t.tgtype & 16 <> 0 THEN 'UPDATE' END,
                          CASE WHEN t.tgtype & 8 <> 0 THEN 'DELETE' END),
                t.tgrelid::regclass,
                CASE WHEN g.aggregate_type <> '' AND g.key_column <> '' THEN g.listed
                     ELSE concat_ws(', ', coalesce(quote_literal(nullif(g.aggregate_type, '')), '<aggregate type>'),
                                    coalesce(quote_literal(nullif(g.key_column, '')), '<key column>')) END) END
FROM pg_trigger t, )";
constexpr const char* kIsMisused = R"(
WHERE t.tgfoid = to_regprocedure('outbox.emit_row()') AND t.tgparentid = 0 AND t.tgenabled <> 'D'
  AND (t.tgtype & 67 <> 1 OR t.tgnargs < 2 OR g.aggregate_type = '')
ORDER BY 2, 1)";

size_t CheckUse(Findings* findings) {
  return TellOfEach(
      RunSql(Access::kRead, (std::string(kMisused) + kGiven + kIsMisused).c_str()), findings, "triggers", "triggers",
      "Mend those that are named first.", [findings](const Row& row) {
        const std::string again = row[3].has_value() ? " And, if its rows are to be emitted: " + *row[3] : "";
        findings->Problem("triggers",
                          RowTrigger(row[0], row[1]) + row[2].value() + ": every write that fires it fails.",
                          "DROP TRIGGER " + row[0].value() + " ON " + row[1].value() + ";" + again);
      });
}

// CREATE TRIGGER takes its arguments as words: NULL there is the text "null".
constexpr const char* kNamedNull = R"(
SELECT quote_ident(t.tgname), t.tgrelid::regclass::text, coalesce(nullif(g.prefix, ''), g.aggregate_type),
       CASE WHEN g.aggregate_type <> 'null' THEN
         format('BEGIN; DROP TRIGGER %I ON %s; %s EXECUTE FUNCTION outbox.emit_row(%s); COMMIT;', t.tgname, t.tgrelid::regclass,
                (regexp_match(pg_get_triggerdef(t.oid), '^(.*) EXECUTE FUNCTION '))[1], g.listed) END
FROM pg_trigger t, )";
constexpr const char* kIsNamedNull = R"(
WHERE t.tgfoid = to_regprocedure('outbox.emit_row()') AND t.tgparentid = 0 AND t.tgenabled <> 'D'
  AND t.tgnargs >= 2 AND 'null' IN (g.aggregate_type, g.prefix)
ORDER BY 2, 1)";

size_t CheckWords(Findings* findings) {
  return TellOfEach(
      RunSql(Access::kRead, (std::string(kNamedNull) + kGiven + kIsNamedNull).c_str()), findings, "triggers",
      "triggers", "Create them again, with an empty text in place of NULL.", [findings](const Row& row) {
        const std::string& type = row[2].value();
        findings->Warn("triggers",
                       RowTrigger(row[0], row[1]) + "was created with NULL as an argument, which is the word null " +
                           "there: its events are " + type + ".created, " + type + ".updated and " + type + ".deleted" +
                           (row[3].has_value() ? "." : ", of the aggregate type null."),
                       row[3].has_value() ? *row[3] : "Create it again, with the aggregate type that is meant.");
      });
}

// Two that emit the same of the same changes: left by a migration that made a new one, or a partition's own beside that
// of its parent. To be dropped is the partition's, or the one that fires last. Of two that say which columns or rows
// they are for, somebody knows.
constexpr const char* kTwins = R"(
WITH RECURSIVE emitting AS (
  SELECT t.oid, t.oid AS made, t.tgrelid, t.tgtype
  FROM pg_trigger t WHERE t.tgfoid = to_regprocedure('outbox.emit_row()') AND t.tgparentid = 0 AND t.tgenabled IN ('O', 'A')
  UNION ALL
  SELECT t.oid, p.made, t.tgrelid, t.tgtype FROM emitting p JOIN pg_trigger t ON t.tgparentid = p.oid WHERE t.tgenabled IN ('O', 'A')
), given AS (
  SELECT t.oid, t.tgrelid, t.tgname, g.aggregate_type, g.key_column, coalesce(nullif(g.prefix, ''), g.aggregate_type) AS prefix
  FROM pg_trigger t, )";
constexpr const char* kAreTwins = R"(
  WHERE t.oid IN (SELECT made FROM emitting) AND t.tgqual IS NULL AND t.tgattr = ''
), twins AS (
  SELECT DISTINCT CASE WHEN (b.tgrelid = e.tgrelid) < (a.tgrelid = e.tgrelid) OR (b.tgrelid = e.tgrelid) = (a.tgrelid = e.tgrelid) AND b.tgname < a.tgname
                       THEN ARRAY[b.oid, a.oid] ELSE ARRAY[a.oid, b.oid] END AS pair
  FROM emitting e JOIN emitting f ON f.tgrelid = e.tgrelid AND f.made < e.made AND f.tgtype & e.tgtype & 28 <> 0
  JOIN given a ON a.oid = e.made JOIN given b ON b.oid = f.made
  WHERE (a.aggregate_type, a.key_column, a.prefix) = (b.aggregate_type, b.key_column, b.prefix)
)
SELECT quote_ident(t.tgname), t.tgrelid::regclass::text, quote_ident(o.tgname), nullif(o.tgrelid, t.tgrelid)::regclass::text
FROM twins w JOIN pg_trigger t ON t.oid = w.pair[2] JOIN pg_trigger o ON o.oid = w.pair[1] ORDER BY 2, 1, 3)";

size_t CheckTwins(Findings* findings) {
  return TellOfEach(RunSql(Access::kRead, (std::string(kTwins) + kGiven + kAreTwins).c_str()), findings, "triggers",
                    "triggers", "Drop one of two.", [findings](const Row& row) {
                      findings->Warn("triggers",
                                     RowTrigger(row[0], row[1]) + "emits what trigger " + row[2].value() +
                                         (row[3].has_value() ? " on " + *row[3] : "") +
                                         " emits as well: of each change there are two events.",
                                     "DROP TRIGGER " + row[0].value() + " ON " + row[1].value() + ";");
                    });
}

// Tables below one with such a trigger by INHERITS, which takes no trigger along, that have none. (They may be where
// rows go that are done with.)
constexpr const char* kWithout = R"(
WITH RECURSIVE below AS (
  SELECT t.oid AS made, i.inhrelid AS relation
  FROM pg_trigger t JOIN pg_inherits i ON i.inhparent = t.tgrelid JOIN pg_class c ON c.oid = i.inhrelid
  WHERE t.tgfoid = to_regprocedure('outbox.emit_row()') AND t.tgparentid = 0 AND t.tgenabled IN ('O', 'A') AND NOT c.relispartition
  UNION
  SELECT b.made, i.inhrelid FROM below b JOIN pg_inherits i ON i.inhparent = b.relation
)
SELECT DISTINCT ON (b.relation::regclass::text) b.relation::regclass::text, t.tgrelid::regclass::text, quote_ident(t.tgname),
       overlay(d.def PLACING ' ON ' || b.relation::regclass::text FROM position(' ON ' || t.tgrelid::regclass::text IN d.def) FOR length(' ON ' || t.tgrelid::regclass::text)) || ';'
FROM below b JOIN pg_class c ON c.oid = b.relation JOIN pg_trigger t ON t.oid = b.made, pg_get_triggerdef(t.oid) d (def)
WHERE c.relkind = 'r' AND NOT EXISTS (SELECT FROM pg_trigger o WHERE o.tgrelid = b.relation AND o.tgfoid = t.tgfoid)
ORDER BY 1, 2, 3)";

size_t CheckChildren(Findings* findings) {
  return TellOfEach(
      RunSql(Access::kRead, kWithout), findings, "triggers", "tables",
      "Row triggers are inherited by partitions alone.",
      [findings](const Row& row) {
        findings->Note("triggers",
                       "Table " + row[0].value() + " inherits from " + row[1].value() + ", but not its trigger " +
                           row[2].value() + ", which calls outbox.emit_row(): rows of " + row[0].value() +
                           " emit nothing.",
                       "If they are to be emitted: " + row[3].value());
      },
      &Findings::Note);
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
    AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = ANY (array_append(l.relations, l.tgrelid)) AND t.tgname = (prefix || l.tgname)::name)
  ORDER BY prefix COLLATE "C" DESC LIMIT 1
) f ON true
GROUP BY l.tgrelid ORDER BY 1)";

size_t CheckFiringOrder(Findings* findings) {
  return TellOfEach(RunSql(Access::kRead, kFiresLate), findings, "triggers", "tables",
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

// Deferred ones fire in the order of the changes at commit, and what one of them changes comes last. SET CONSTRAINTS
// ... IMMEDIATE fires them as well, and then what one of them changes has its own triggers fire at once: before those
// that are still to come, which emit what the row was before. A name that comes first does not help. Such a one of
// another table may change the row, too.
constexpr const char* kDeferrable = R"(
WITH RECURSIVE emitting AS (
  SELECT t.oid, t.oid AS made, t.tgrelid, t.tgenabled
  FROM pg_trigger t WHERE t.tgfoid = to_regprocedure('outbox.emit_row()') AND t.tgparentid = 0 AND t.tgdeferrable AND t.tgtype & 28 NOT IN (4, 8)
  UNION ALL
  SELECT t.oid, p.made, t.tgrelid, t.tgenabled FROM emitting p JOIN pg_trigger t ON t.tgparentid = p.oid
), changing AS (
  SELECT o.tgrelid, o.tgname FROM pg_trigger o JOIN pg_proc p ON p.oid = o.tgfoid
  WHERE o.tgdeferrable AND NOT o.tgisinternal AND o.tgenabled IN ('O', 'A') AND p.provolatile = 'v' AND p.pronamespace <> 'outbox'::regnamespace
)
SELECT quote_ident(t.tgname), t.tgrelid::regclass::text,
       string_agg(DISTINCT quote_ident(c.tgname), ', ') FILTER (WHERE c.tgrelid = e.tgrelid),
       format('BEGIN; DROP TRIGGER %I ON %s; %s;%s COMMIT;', t.tgname, t.tgrelid::regclass,
              regexp_replace(regexp_replace(pg_get_triggerdef(t.oid), '^CREATE CONSTRAINT', 'CREATE'),
                             '( FROM ("[^"]*"|[^" ])+)? DEFERRABLE INITIALLY (DEFERRED|IMMEDIATE) FOR EACH ROW', ' FOR EACH ROW'),
              format(CASE t.tgenabled WHEN 'A' THEN ' ALTER TABLE %s ENABLE ALWAYS TRIGGER %I;' ELSE '' END, t.tgrelid::regclass, t.tgname))
FROM emitting e JOIN pg_trigger t ON t.oid = e.made CROSS JOIN changing c
WHERE e.tgenabled IN ('O', 'A') GROUP BY t.oid, t.tgname, t.tgrelid, t.tgenabled ORDER BY 2, 1)";

size_t CheckDeferrable(Findings* findings) {
  std::vector<Row> same;
  std::vector<Row> other;
  for (Row& row : RunSql(Access::kRead, kDeferrable)) {
    (row[2].has_value() ? same : other).push_back(std::move(row));
  }
  const auto tell_of = [findings](const Row& row) {
    (findings->*(row[2].has_value() ? &Findings::Warn : &Findings::Note))(
        "triggers",
        RowTrigger(row[0], row[1]) + "is DEFERRABLE, as " + row[2].value_or("one of another table") +
            " is: of a row that that one changes when SET CONSTRAINTS ... IMMEDIATE fires both the newer version is "
            "emitted first, and the older one last.",
        row[3].value() + " Then its name has to come before those of other triggers that change the row.");
  };
  const char* what_to_do = "Make triggers that call outbox.emit_row() plain AFTER triggers.";
  return TellOfEach(same, findings, "triggers", "triggers", what_to_do, tell_of) +
         TellOfEach(other, findings, "triggers", "triggers", what_to_do, tell_of, &Findings::Note);
}

}  // namespace

size_t CheckRowTriggers(Findings* findings) {
  return CheckUse(findings) + CheckColumns(findings) + CheckWords(findings) + CheckSilent(findings) +
         CheckTwins(findings) + CheckFiringOrder(findings) + CheckDeferrable(findings) + CheckChildren(findings);
}

}  // namespace outbox::admin
