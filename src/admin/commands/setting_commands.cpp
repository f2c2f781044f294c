#include "admin/commands/setting_commands.h"

#include "admin/common/json.h"
#include "admin/common/operation.h"
#include "admin/common/query.h"
#include "admin/lookup/processes.h"
#include "pg/encoding.h"
#include "pg/settings.h"

extern "C" {
#include "access/xlog.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/acl.h"
#include "utils/guc.h"
}

namespace outbox::admin {

namespace {

constexpr const char* kNeeded[] = {"audit"};
constexpr const char* kIdentity[] = {"identity"};
// Bytes of a value that are shown: roles without any right may set values of any length, and the rows stay.
constexpr int kMostShown = 1000;

Cell Shown(const Cell& value) {
  if (!value || value->size() <= kMostShown) {
    return value;
  }
  const char* text = value->c_str();
  return Cell(pg::Guard([text] { return pg::CutShort(text, kMostShown); }));
}

// All settings are ours as well as others'. (Names are in lower case, or quoted.)
bool IsOurs(const VariableSetStmt* set) {
  constexpr size_t kPrefix = 7;
  return set->kind == VAR_RESET_ALL || (set->name != nullptr && pg_strncasecmp(set->name, "outbox.", kPrefix) == 0);
}

// Where no row can be written the command goes on: ALTER SYSTEM is for standbys, too.
bool CanAudit() {
  return !RecoveryInProgress() && !XactReadOnly && HasTables(kNeeded);
}

// What the setting is now, and what it will be. `now`: NULL: it is not set there.
void Write(const char* action, const VariableSetStmt* set, JsonObject detail, const Cell& now) {
  const bool all = set->kind == VAR_RESET_ALL;
  auto* mutable_set = const_cast<VariableSetStmt*>(set);
  const char* value = pg::Guard([mutable_set]() -> const char* { return ExtractSetVariableArgs(mutable_set); });
  const Cell to = value != nullptr ? Cell(value) : Cell();
  if (all && !now) {
    return;  // nothing of ours was set
  }
  if (all || now != to) {
    detail.Add("setting", all ? Cell("all") : Cell(set->name)).Add("from", Shown(now)).Add("to", Shown(to));
    WriteAudit(action, Cell(), Cell(), detail, Cell());
  }
}

// Of all settings this one makes the server silent, and with the next restart only: perhaps months later.
void WarnOfInstance(const VariableSetStmt* set) {
  if (set->kind != VAR_SET_VALUE || pg_strcasecmp(set->name, "outbox.instance") != 0 || !HasTables(kIdentity)) {
    return;
  }
  auto* mutable_set = const_cast<VariableSetStmt*>(set);
  const char* value = pg::Guard([mutable_set] { return ExtractSetVariableArgs(mutable_set); });
  const char* now = pg::settings.instance != nullptr ? pg::settings.instance : "";
  const pg::Identities identities = CountIdentities();
  if (strcmp(value, now) == 0 || identities.all == 0 || identities.IsCopy()) {
    return;
  }
  pg::Guard([] {
    ereport(
        WARNING,
        (errcode(ERRCODE_WARNING),
         errmsg("with another outbox.instance this server's outboxes are copies, and silent, once it is restarted"),
         errdetail("The setting is for a copy of a server's files, so that it does not publish beside its original."),
         errhint("If that is not meant: ALTER SYSTEM RESET outbox.instance. If it is, SELECT outbox.adopt() after "
                 "the restart, in each database.")));
  });
}

// As pg_db_role_setting has it, `role` and `database` as in ALTER ROLE and ALTER DATABASE; of all settings those of
// ours.
// `by_himself`: not those that any user may set, for a session as well.
Cell StoredSetting(const VariableSetStmt* set, const Cell& role, const Cell& database, bool by_himself = false) {
  const bool all = set->kind == VAR_RESET_ALL;
  return RunSql(
      Access::kWrite,
      "SELECT string_agg(CASE WHEN $1 IS NULL THEN c ELSE substr(c, length($1) + 2) END, ', ' ORDER BY c) "
      "FROM pg_db_role_setting s, unnest(s.setconfig) c "
      "WHERE s.setrole = coalesce((SELECT r.oid FROM pg_roles r WHERE r.rolname = $2), 0) "
      "AND s.setdatabase = coalesce((SELECT d.oid FROM pg_database d WHERE d.datname = $3), 0) "
      "AND CASE WHEN $1 IS NULL THEN lower(c) LIKE 'outbox.%' ELSE lower(split_part(c, '=', 1)) = lower($1) END "
      "AND NOT ($4::boolean AND EXISTS (SELECT FROM pg_settings g "
      "WHERE g.name = lower(split_part(c, '=', 1)) AND g.context = 'user'))",
      {all ? Cell() : Cell(set->name), role, database, Cell(by_himself ? "t" : "f")})[0][0];
}

// Whether any user may set it, for a session as well.
bool IsOfUsers(const VariableSetStmt* set) {
  return set->kind != VAR_RESET_ALL &&
         !RunSql(Access::kWrite, "SELECT FROM pg_settings WHERE name = lower($1) AND context = 'user'",
                 {Cell(set->name)})
              .empty();
}

}  // namespace

bool SetsOfSystem(Node* statement) {
  return IsOurs(reinterpret_cast<AlterSystemStmt*>(statement)->setstmt);
}

bool SetsOfDatabase(Node* statement) {
  return IsOurs(reinterpret_cast<AlterDatabaseSetStmt*>(statement)->setstmt);
}

bool SetsOfRole(Node* statement) {
  return IsOurs(reinterpret_cast<AlterRoleSetStmt*>(statement)->setstmt);
}

void AuditSettingOfSystem(Node* statement) {
  const VariableSetStmt* set = reinterpret_cast<AlterSystemStmt*>(statement)->setstmt;
  if (!CanAudit()) {
    return;
  }
  WarnOfInstance(set);
  // What the server's files say, whatever this session has set; who owns the tables may perhaps not read that.
  const bool all = set->kind == VAR_RESET_ALL;
  const bool may = RunSql(Access::kWrite,
                          "SELECT has_table_privilege('pg_file_settings', 'SELECT') AND "
                          "has_function_privilege('pg_show_all_file_settings()', 'EXECUTE')")[0][0] == "t";
  if (!may && all) {
    WriteAudit("alter system", Cell(), Cell(), JsonObject().Add("setting", Cell("all")), Cell());
    return;
  }
  const std::vector<Row> rows =
      !may ? RunSql(Access::kWrite, "SELECT reset_val FROM pg_settings WHERE name = lower($1)", {Cell(set->name)})
           : RunSql(Access::kWrite,
                    "SELECT string_agg(CASE WHEN $1 IS NULL THEN f.name || '=' || f.setting ELSE f.setting END, ', ' "
                    "ORDER BY f.name) "
                    "FROM (SELECT DISTINCT ON (name) name, setting FROM pg_file_settings WHERE name LIKE 'outbox.%' "
                    "AND ($1 IS NOT NULL OR sourcefile LIKE '%postgresql.auto.conf') ORDER BY name, seqno DESC) f "
                    "WHERE $1 IS NULL OR f.name = lower($1)",
                    {all ? Cell() : Cell(set->name)});
  Write("alter system", set, JsonObject(), rows.empty() ? Cell() : rows[0][0]);
}

void AuditSettingOfDatabase(Node* statement) {
  const auto* alter = reinterpret_cast<AlterDatabaseSetStmt*>(statement);
  if (CanAudit()) {
    Write("alter database", alter->setstmt, JsonObject().Add("database", Cell(alter->dbname)),
          StoredSetting(alter->setstmt, Cell(), Cell(alter->dbname)));
  }
}

void CheckSettingOfRole(Node* statement) {
  const auto* alter = reinterpret_cast<AlterRoleSetStmt*>(statement);
  VariableSetStmt* set = alter->setstmt;
  if (alter->role == nullptr || (set->kind != VAR_SET_VALUE && set->kind != VAR_SET_CURRENT)) {
    return;
  }
  pg::Guard([set] {
    (void)set_config_option(set->name, ExtractSetVariableArgs(set), superuser() ? PGC_SUSET : PGC_USERSET, PGC_S_USER,
                            GUC_ACTION_SET, false, ERROR, false);
  });
}

void AuditSettingOfRole(Node* statement) {
  const auto* alter = reinterpret_cast<AlterRoleSetStmt*>(statement);
  if (!CanAudit()) {
    return;
  }
  const RoleSpec* spec = alter->role;  // none: ALTER ROLE ALL
  // What a role sets for itself, and may set in any session, is nobody's business: it needs no right at all.
  const bool by_himself = spec != nullptr && pg::Guard([spec] { return get_rolespec_oid(spec, true) == GetUserId(); });
  if (by_himself && IsOfUsers(alter->setstmt)) {
    return;
  }
  const char* name = spec == nullptr ? nullptr : pg::Guard([spec]() -> const char* { return get_rolespec_name(spec); });
  const Cell role = name != nullptr ? Cell(name) : Cell();
  const Cell database = alter->database != nullptr ? Cell(alter->database) : Cell();
  Write("alter role", alter->setstmt, JsonObject().Add("for", role ? role : Cell("all")).Add("database", database),
        StoredSetting(alter->setstmt, role, database, by_himself));
}

}  // namespace outbox::admin
