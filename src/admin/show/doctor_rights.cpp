// outbox.doctor(): roles with rights on the extension's objects that they should not have [P].
#include "admin/show/doctor.h"

#include <algorithm>

namespace outbox::admin {

namespace {

// What grant_emit(), grant_receive(), grant_operate() and the install script give is fine, and so is EXECUTE on
// functions that docs/privileges.md says may be granted by themselves. All other rights come from default privileges of
// the object's owner, or were granted by hand. Mild: with it a role reads, or calls a function that somebody gave to it
// by name, and neither hands rights on nor erases. A right on columns is judged as one on the whole.
constexpr const char* kOdd = R"(
WITH looked_at AS MATERIALIZED (
  SELECT to_regclass(substring(g.what FROM '[)] ON (.*)$'))::oid AS relation, c AS "column"
  FROM outbox_internal.granted('monitor') g, string_to_table(substring(g.what FROM '^SELECT [(](.*)[)] ON '), ', ') c
), rights AS (
  SELECT CASE WHEN c.relkind = 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind, c.oid::regclass::text AS name, x.grantee,
         x.privilege_type AS privilege, quote_ident(x."column") AS "column",
         CASE WHEN c.relkind = 'S' THEN true
              WHEN c.relkind = 'v' THEN x.privilege_type <> 'SELECT' AND NOT (c.relname IN ('event', 'outboxevent') AND x.privilege_type IN ('INSERT', 'UPDATE', 'DELETE'))
              ELSE x.privilege_type <> 'SELECT' OR c.relname IN ('log', 'parked', 'foreign_event')
                   OR c.oid IN (SELECT g.relation FROM outbox_internal.log_table g) END
         OR (c.relkind = 'v' AND c.relnamespace = 'outbox_internal'::regnamespace AND c.relname <> 'waiting')
         OR x.grantee = 0 AS odd,
         x.privilege_type = 'SELECT' AND x.grantee <> 0 AS mild
  FROM pg_class c JOIN outbox_internal.relation_rights x ON x.relation = c.oid
  WHERE c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND x.grantee <> c.relowner
    AND NOT (x.privilege_type = 'SELECT' AND x.grantee <> 0 AND (c.oid, quote_ident(x."column")) IN (SELECT l.relation, l."column" FROM looked_at l)) IS TRUE
  UNION ALL
  SELECT 'ROUTINE', p.oid::regprocedure::text, x.grantee, x.privilege_type, NULL,
         CASE WHEN x.grantee = 0 THEN p.proname NOT LIKE 'json\_arg\_%'
              WHEN p.pronamespace = 'outbox_internal'::regnamespace THEN p.oid NOT IN (
                SELECT g.routine FROM outbox_internal.granted('monitor') g WHERE g.routine IS NOT NULL)
              ELSE p.proname NOT IN ('create_route', 'wait_for', 'wait_until_idle', 'metrics_reset') AND p.oid NOT IN (
                SELECT g.routine FROM unnest('{emit,receive,operate}'::text[]) a, outbox_internal.granted(a) g WHERE g.routine IS NOT NULL) END,
         x.grantee <> 0 AND p.pronamespace = 'outbox'::regnamespace AND p.proname !~ '^(adopt|forget|(grant|revoke)_.*)$'
  FROM pg_proc p, aclexplode(p.proacl) x
  WHERE p.pronamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND x.grantee <> p.proowner
    AND EXISTS (SELECT FROM pg_depend d, pg_extension e WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid
                AND d.deptype = 'e' AND d.refobjid = e.oid AND e.extname = 'outbox')
  UNION ALL
  SELECT 'SCHEMA', n.nspname, x.grantee, x.privilege_type, NULL, x.privilege_type = 'CREATE' OR x.grantee = 0, false
  FROM pg_namespace n, aclexplode(n.nspacl) x
  WHERE n.nspname IN ('outbox', 'outbox_internal') AND x.grantee <> n.nspowner
), named AS (
  SELECT kind, name, grantee, privilege || coalesce(' (' || string_agg(DISTINCT "column", ', ') || ')', '') AS privilege, bool_and(mild) AS mild
  FROM rights WHERE odd GROUP BY kind, name, grantee, privilege, "column" IS NULL
)
SELECT kind, name, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
       string_agg(privilege, ', ' ORDER BY privilege), bool_and(mild)
FROM named GROUP BY kind, name, grantee ORDER BY 5, 3, 1, 2)";

// A right by pattern (schema/24_rights.sql): what is said of it.
struct PatternRight {
  const char* action;
  const char* names;
  const char* all;
};
constexpr PatternRight kPatternRights[] = {{"emit", "topics", "emit to every topic"},
                                           {"receive", "consumers", "receive as every consumer"}};

// Roles with the right and without a row of grant_...() that says in which names, of themselves or of one that they are
// members of: by EXECUTE on a routine, or INSERT on a view that does the same, or on columns of it. Members of
// pg_write_all_data have INSERT on all that there is, which matters where names are limited.
std::string UnsaidSql(const PatternRight& right) {
  const std::string action = right.action;
  const std::string names = right.names;
  return "WITH given AS (SELECT x.grantee FROM pg_proc p JOIN outbox_internal.granted('" + action +
         "') g ON g.routine = p.oid, aclexplode(p.proacl) x WHERE p.pronamespace = 'outbox'::regnamespace AND "
         "x.grantee <> p.proowner "
         "UNION SELECT x.grantee FROM pg_class c JOIN outbox_internal.granted('" +
         action +
         "') g ON g.relation = c.oid JOIN outbox_internal.relation_rights x ON x.relation = c.oid "
         "WHERE x.privilege_type = 'INSERT' AND x.grantee <> c.relowner "
         "UNION SELECT m.roleid FROM pg_auth_members m WHERE m.roleid = 'pg_write_all_data'::regrole "
         "AND EXISTS (SELECT FROM outbox_internal.granted('" +
         action +
         "') g WHERE g.relation IS NOT NULL) "
         "AND EXISTS (SELECT FROM outbox_internal." +
         action + "_right e WHERE e." + names +
         " IS NOT NULL)), said AS MATERIALIZED (SELECT e.found FROM outbox_internal.right_rows('" + action +
         "') e WHERE e.found IS NOT NULL), "
         // Most have a row of their own. Only the others are asked, with each row, what they are members of.
         "others AS MATERIALIZED (SELECT grantee FROM given EXCEPT SELECT found FROM said) "
         "SELECT quote_ident(r.rolname), quote_literal(quote_ident(r.rolname)), r.rolname = 'pg_write_all_data' "
         "FROM others o JOIN pg_roles r ON r.oid = o.grantee WHERE NOT r.rolsuper AND NOT EXISTS (SELECT FROM said e "
         "WHERE pg_has_role(r.oid, e.found, 'USAGE')) ORDER BY 1";
}

// What grant_...() has said of roles that have the right no more: dropped, or it was taken back by other ways (DROP
// OWNED, REVOKE). A row of a role that there is not holds for whoever is called so later.
std::string LeftSql(const PatternRight& right) {
  const std::string action = right.action;
  return "SELECT quote_literal(coalesce(e.found_name, e.role)), e.found IS NULL, e.patterns::text, "
         "quote_literal(quote_ident(e.found_name)) FROM outbox_internal.right_rows('" +
         action + "') e WHERE e.found IS NULL OR NOT EXISTS (SELECT FROM outbox_internal." + action +
         "_routines() p WHERE has_function_privilege(e.found, p, 'EXECUTE')) ORDER BY 1";
}

// Roles of grant_emit() that may call emit() still, and of what it gave have lost a part by REVOKE.
constexpr const char* kTakenBack = R"(
SELECT quote_ident(e.found_name), string_agg(w.what, ', ' ORDER BY w.n),
       format('SELECT outbox.grant_emit(%L%s);', quote_ident(e.found_name), CASE WHEN e.patterns IS NULL THEN '' ELSE format(', topics => %L', e.patterns) END)
FROM outbox_internal.right_rows('emit') e
CROSS JOIN LATERAL (
  SELECT 1, 'USAGE ON SCHEMA outbox' WHERE NOT has_schema_privilege(e.found, 'outbox', 'USAGE')
  UNION ALL SELECT 2, 'INSERT ON outbox.event' WHERE NOT has_table_privilege(e.found, 'outbox.event', 'INSERT')
  UNION ALL SELECT 3, 'EXECUTE ON ROUTINE ' || p::text FROM outbox_internal.emit_routines() p WHERE NOT has_function_privilege(e.found, p, 'EXECUTE')
) w (n, what)
WHERE EXISTS (SELECT FROM outbox_internal.emit_routines() p WHERE has_function_privilege(e.found, p, 'EXECUTE'))
GROUP BY e.found_name, e.patterns ORDER BY 1 LIMIT 20)";

// What pg_monitor has no more of what it may look at from the start, and operators of what grant_operate() gives: roles
// that may call all that operators act by. (A role that was given some of these by hand is none.) Most is what somebody
// took from pg_monitor, and it may be a page of it: then psql writes the commands.
constexpr const char* kLacking = R"(
WITH operators AS (
  SELECT x.grantee AS oid FROM outbox_internal.operate_routines() o JOIN pg_proc p ON p.oid = o, aclexplode(p.proacl) x
  WHERE x.grantee <> 0 AND x.grantee <> p.proowner AND x.grantee <> 'pg_monitor'::regrole
  GROUP BY 1 HAVING count(*) >= (SELECT count(*) FROM outbox_internal.operate_routines())
)
SELECT quote_ident(pg_get_userbyid(l.role)), array_to_string((array_agg(l.what ORDER BY l.what COLLATE "C"))[1:10], '; '), greatest(count(*) - 10, 0),
       CASE WHEN l.operates THEN format('SELECT outbox.grant_operate(%L);', quote_ident(pg_get_userbyid(l.role)))
            WHEN count(*) <= 10 THEN string_agg(format('GRANT %s TO pg_monitor;', l.what), ' ' ORDER BY l.what COLLATE "C")
            ELSE $hint$SELECT format('GRANT %s TO pg_monitor', w) FROM outbox_internal.lacking('pg_monitor'::regrole, 'monitor') w \gexec$hint$ END,
       l.operates
FROM (
  SELECT 'pg_monitor'::regrole::oid AS role, false AS operates, w.what FROM outbox_internal.lacking('pg_monitor'::regrole, 'monitor') w (what)
  UNION ALL
  SELECT o.oid, true, w.what FROM operators o, outbox_internal.lacking(o.oid, 'operate') w (what)
) l
GROUP BY l.role, l.operates ORDER BY l.operates, 1 LIMIT 20)";

// What of the extension is not its owner's: with the rights of another, what runs as its owner fails; the last column
// says where. Some tables say by their owner with whose rights the workers, functions and the inbox run. A column's
// sequence follows its table. No name is looked up, for who asks here may not reach the schemas any more.
constexpr const char* kOwners = R"(
WITH ours AS (SELECT e.oid, e.extowner AS owner FROM pg_extension e WHERE e.extname = 'outbox'),
schemas AS (SELECT n.* FROM pg_namespace n WHERE n.nspname IN ('outbox', 'outbox_internal')),
found AS (
  SELECT 'SCHEMA' AS kind, n.nspname::text AS name, n.nspowner AS owner,
         NOT has_schema_privilege(o.owner, n.oid, 'USAGE') OR NOT has_schema_privilege(o.owner, n.oid, 'CREATE') AS fails
  FROM ours o, schemas n WHERE n.nspowner <> o.owner
  UNION ALL
  SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass::text, c.relowner,
         (c.relkind = 'v' OR c.relname IN ('log', 'route', 'identity', 'inbox_kept')) AND NOT pg_has_role(c.relowner, o.owner, 'USAGE')
         OR c.relkind <> 'v' AND NOT pg_has_role(o.owner, c.relowner, 'USAGE')
  FROM ours o, pg_class c JOIN schemas n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'S') AND c.relowner <> o.owner
    AND (c.relispartition OR EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e' AND d.refobjid = o.oid))
    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i') AND d.refobjsubid > 0 AND c.relkind = 'S')
  UNION ALL
  SELECT 'ROUTINE', p.oid::regprocedure::text, p.proowner, p.prosecdef AND NOT pg_has_role(p.proowner, o.owner, 'USAGE')
  FROM ours o, pg_proc p, pg_depend d WHERE p.proowner <> o.owner AND d.classid = 'pg_proc'::regclass
    AND d.objid = p.oid AND d.deptype = 'e' AND d.refobjid = o.oid
)
SELECT f.kind, f.name, quote_ident(pg_get_userbyid(f.owner)), quote_ident(pg_get_userbyid(o.owner)), f.fails
FROM found f, ours o ORDER BY f.kind <> 'SCHEMA', f.kind, f.name)";

std::string GiveBack(const Row& row) {
  return "ALTER " + row[0].value() + " " + row[1].value() + " OWNER TO " + row[3].value() + ";";
}

std::string Whose(const Row& row) {
  return (row[0] == "SCHEMA" ? "Schema " : "") + row[1].value() + " belongs to " + row[2].value() +
         ", and the extension to " + row[3].value();
}

// Returns how much there was to tell.
size_t CheckPatternRight(const PatternRight& right, Findings* findings) {
  const std::string action = right.action;
  const std::string names = right.names;
  std::vector<Row> unsaid = RunSql(Access::kRead, UnsaidSql(right).c_str());
  unsaid.resize(std::min(unsaid.size(), kTold));
  for (const Row& row : unsaid) {
    findings->Warn(
        "rights", row[0].value() + " may " + right.all + ", and outbox.grant_" + action + "() has not said so.",
        (row[2] == "t" ? "Its members may insert into every view. REVOKE it from who need not, or: SELECT outbox.grant_"
                       : "The right was given by hand. SELECT outbox.grant_") +
            action + "(" + row[1].value() + "), with " + names + " if it is to have any, says what holds.");
  }
  std::vector<Row> left = RunSql(Access::kRead, LeftSql(right).c_str());
  left.resize(std::min(left.size(), kTold));
  for (const Row& row : left) {
    const bool gone = row[1] == "t";
    const std::string limits =
        row[2] ? (action == "emit" ? ", to " : ", as ") + names + " " + *row[2] + "," : std::string();
    findings->Warn("rights",
                   "outbox.grant_" + action + "() let " + row[0].value() + limits + " " + action + ", and " +
                       (gone ? "there is no such role: what it said would hold for one that is made under that name."
                             : "its rights were taken back by another way: what it said of " + names +
                                   " holds if they are given again."),
                   gone ? "DELETE FROM outbox_internal." + action + "_right WHERE role = " + row[0].value() + ";"
                        : "SELECT outbox.revoke_" + action + "(" + row[3].value() + ");");
  }
  return unsaid.size() + left.size();
}

// Returns how much there was to tell.
size_t CheckTakenBack(Findings* findings) {
  const std::vector<Row> roles = RunSql(Access::kRead, kTakenBack);
  for (const Row& row : roles) {
    findings->Warn(
        "rights",
        row[0].value() + " has outbox.grant_emit(), and what that gave was taken back in part: " + row[1].value() + ".",
        row[2].value() + " gives it back; outbox.revoke_emit() takes all of it.");
  }
  return roles.size();
}

// Returns how much there was to tell.
size_t CheckLacking(Findings* findings) {
  const std::vector<Row> roles = RunSql(Access::kRead, kLacking);
  for (const Row& row : roles) {
    const std::string what = row[1].value() + (row[2] == "0" ? "" : ", and " + row[2].value() + " more");
    findings->Warn(
        "rights",
        row[4] == "t"
            ? row[0].value() +
                  " may call all that operators act by, and lacks a part of what outbox.grant_operate() gives: " +
                  what + "."
            : "Members of pg_monitor may not see all that they may see from the start. It lacks: " + what + ".",
        row[3].value());
  }
  return roles.size();
}

// Returns how much there was to tell.
size_t CheckTablesWithoutRight(Findings* findings) {
  const std::vector<Row> owners = RunSql(
      Access::kRead, "SELECT named, tables, topics, remedy FROM outbox_internal.owners_without_right() LIMIT 20");
  for (const Row& row : owners) {
    if (row[2]) {
      findings->Problem("rights",
                        row[0].value() + " may not emit to " + row[2].value() +
                            ", to which triggers emit_row of its tables do: " + row[1].value() +
                            ". Their rows are refused.",
                        row[3].value());
    } else {
      findings->Problem("rights",
                        row[0].value() + " may not emit, and owns tables with a trigger emit_row: " + row[1].value() +
                            ". Their rows are refused, as topics are limited here.",
                        row[3].value() + " (With topics if it is to have any.)");
    }
  }
  return owners.size();
}

}  // namespace

bool CheckReach(Findings* findings) {
  const std::vector<Row> rows = RunSql(Access::kRead, kOwners);
  const Row* first = nullptr;
  std::string hint;
  for (const Row& row : rows) {
    if (row[4] == "t") {
      first = first == nullptr ? &row : first;
      hint += (hint.empty() ? "" : " ") + GiveBack(row);
    }
  }
  if (first == nullptr) {
    return true;
  }
  constexpr size_t kTyped = 1000;
  findings->Problem(
      "owners",
      Whose(*first) +
          ": one of the two may not reach what is the other's, so views and functions of outbox fail, and "
          "what doctor() would say of all else is left out.",
      hint.size() <= kTyped ? hint
                            : "REASSIGN OWNED BY " + (*first)[2].value() + " TO " + (*first)[3].value() +
                                  "; gives all that the role has in this database.");
  return false;
}

void CheckOwners(Findings* findings) {
  std::vector<Row> rows = RunSql(Access::kRead, kOwners);
  (void)TellOfEach(
      rows, findings, "owners", "objects",
      rows.size() <= kTold ? ""
                           : "REASSIGN OWNED BY " + rows[kTold][2].value() + " TO " + rows[kTold][3].value() +
                                 "; gives all that the role has in this database.",
      [findings](const Row& row) {
        findings->Warn(
            "owners",
            Whose(row) + (row[0] == "SCHEMA" ? ": who owns a schema may drop and rename what is in it."
                                             : ": what runs with the rights of its owner may not reach the tables."),
            GiveBack(row));
      });
  if (rows.empty()) {
    findings->Ok("owners", "All objects of the extension have one owner.");
  }
}

void CheckRights(Findings* findings) {
  const std::vector<Row> odd = RunSql(Access::kRead, kOdd);
  const auto as = [](const Row& row) -> Findings::Way { return row[4] == "t" ? &Findings::Warn : &Findings::Problem; };
  (void)TellOfEach(
      odd, findings, "rights", "rights", "ALTER DEFAULT PRIVILEGES of the extension's owner may have given them.",
      [&](const Row& row) {
        (findings->*as(row))("rights",
                             row[2].value() + " has " + row[3].value() + " on " + row[1].value() +
                                 ", which is not needed to emit, look or operate.",
                             "REVOKE " + row[3].value() + " ON " + row[0].value() + " " + row[1].value() + " FROM " +
                                 row[2].value() + ";");
      },
      odd.size() > kTold ? as(odd[kTold]) : &Findings::Warn);  // mild ones are last
  size_t told = odd.size() + CheckTablesWithoutRight(findings) + CheckTakenBack(findings) + CheckLacking(findings);
  for (const PatternRight& right : kPatternRights) {
    told += CheckPatternRight(right, findings);
  }
  if (told == 0) {
    findings->Ok(
        "rights",
        "Nobody has more rights on the objects of outbox than grant_emit(), grant_receive() and grant_operate() "
        "give, or EXECUTE on create_route(), wait_for(), wait_until_idle() or metrics_reset(), which is granted by "
        "hand.");
  }
}

}  // namespace outbox::admin
