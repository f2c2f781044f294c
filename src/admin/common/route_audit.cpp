#include "admin/common/route_audit.h"

#include "admin/common/operation.h"
#include "pg/clock.h"
#include "sink/kind.h"

extern "C" {
#include "catalog/namespace.h"
#include "commands/defrem.h"
#include "commands/extension.h"
}

namespace outbox::admin {

namespace {

// What the audit keeps of row r of outbox.route.
#define FACE                                                                                                    \
  "jsonb_build_object('server', r.server, 'aggregate_types', r.aggregate_types, 'event_types', r.event_types, " \
  "'topic', r.topic, 'key', r.key, 'format', r.format, 'lanes', coalesce(r.lanes_wanted, r.lanes), "            \
  "'options', r.options, 'on_failure', "                                                                        \
  "r.on_failure, 'max_attempts', r.max_attempts, 'backoff_base', r.backoff_base::text, 'backoff_cap', "         \
  "r.backoff_cap::text)"

struct Change {
  std::string names;     // {"name": {"from": ..., "to": ...}}; "{}": nothing has changed
  bool filters = false;  // which events the route wants has, or where they go
};

// What has changed between two JSON objects.
Change Changes(const std::string& from, const std::string& to) {
  const Row row = RunSql(
      Access::kRead,
      "SELECT coalesce(jsonb_object_agg(coalesce(a.key, b.key), "
      "jsonb_strip_nulls(jsonb_build_object('from', a.value, 'to', b.value))), '{}'), "
      "coalesce(bool_or(coalesce(a.key, b.key) IN ('aggregate_types', 'event_types', 'topic', 'options')), false) "
      "FROM jsonb_each($1::jsonb) a FULL JOIN jsonb_each($2::jsonb) b ON b.key = a.key "
      "WHERE a.value IS DISTINCT FROM b.value",
      {Cell(from), Cell(to)})[0];
  return {row[0].value(), row[1] == "t"};
}

// What lookup/former_filters.h and log/loss/lane_history.h ask of a change of filters: when it was, by the clock of
// events, which may be ahead of the row's own time, and by which transaction.
void AddFilterChange(const Change& change, JsonObject* detail) {
  if (change.filters) {
    detail->Add("clock", UnixMicrosCell(pg::Guard([] { return pg::ClockNow(); })))
        .Add("xid", RunSql(Access::kWrite, "SELECT pg_current_xact_id()")[0][0]);
  }
}

// Options of the server (they are public: secrets are refused there), its owner, whose user mapping counts first, and
// who has one.
std::string ServerFace(const std::string& server) {
  std::vector<Row> rows = RunSql(
      Access::kWrite,
      "SELECT coalesce((SELECT jsonb_object_agg(o.option_name, o.option_value) FROM "
      "pg_options_to_table(s.srvoptions) o), '{}') || jsonb_build_object('owner', pg_get_userbyid(s.srvowner), "
      "'mappings', (SELECT jsonb_agg(m.usename ORDER BY m.usename) FROM pg_user_mappings m WHERE m.srvid = s.oid)) "
      "FROM pg_foreign_server s WHERE s.srvname = $1::name",
      {Cell(server)});
  return rows.empty() ? "{}" : rows[0][0].value();
}

// The server that the command is about; nullptr: none of a route. Plain.
const char* ServerOf(Node* statement) {
  switch (nodeTag(statement)) {
    case T_AlterForeignServerStmt:
      return reinterpret_cast<AlterForeignServerStmt*>(statement)->servername;
    case T_CreateUserMappingStmt:
      return reinterpret_cast<CreateUserMappingStmt*>(statement)->servername;
    case T_AlterUserMappingStmt:
      return reinterpret_cast<AlterUserMappingStmt*>(statement)->servername;
    case T_DropUserMappingStmt:
      return reinterpret_cast<DropUserMappingStmt*>(statement)->servername;
    case T_AlterOwnerStmt: {
      auto* owner = reinterpret_cast<AlterOwnerStmt*>(statement);
      return owner->objectType == OBJECT_FOREIGN_SERVER ? strVal(owner->object) : nullptr;
    }
    default:
      return nullptr;
  }
}

constexpr const char* kNeeded[] = {"audit", "route"};

struct Mapping {
  const char* action;
  RoleSpec* user;
  List* options;
};

// Plain. No action: it is about the server itself.
Mapping MappingOf(Node* statement) {
  switch (nodeTag(statement)) {
    case T_CreateUserMappingStmt: {
      auto* create = reinterpret_cast<CreateUserMappingStmt*>(statement);
      return {"create user mapping", create->user, create->options};
    }
    case T_AlterUserMappingStmt: {
      auto* alter = reinterpret_cast<AlterUserMappingStmt*>(statement);
      return {"alter user mapping", alter->user, alter->options};
    }
    case T_DropUserMappingStmt:
      return {"drop user mapping", reinterpret_cast<DropUserMappingStmt*>(statement)->user, nullptr};
    default:
      return {nullptr, nullptr, nullptr};
  }
}

std::string UserText(RoleSpec* user) {
  const char* name = pg::Guard([user]() -> const char* {
    return user->roletype == ROLESPEC_PUBLIC ? "PUBLIC" : GetUserNameFromId(get_rolespec_oid(user, true), true);
  });
  return name != nullptr ? name : "nobody";
}

// "SET sasl.password, DROP sasl.username": never a value.
std::string OptionNames(List* options) {
  std::string text;
  for (int i = 0; i < list_length(options); i++) {
    const auto* option = static_cast<const DefElem*>(list_nth(options, i));
    text += text.empty() ? "" : ", ";
    text += option->defaction == DEFELEM_SET ? "SET " : option->defaction == DEFELEM_DROP ? "DROP " : "ADD ";
    text += option->defname;
  }
  return text;
}

}  // namespace

std::string RouteFace(const std::string& name) {
  std::vector<Row> rows = RunSql(Access::kWrite, "SELECT " FACE " FROM outbox.route r WHERE r.name = $1", {Cell(name)});
  return rows.empty() ? "{}" : rows[0][0].value();
}

void AuditCreatedRoute(const std::string& name, const std::string& start) {
  WriteAudit("create_route", name, Cell(), JsonObject().AddRaw("to", RouteFace(name)).Add("start", Cell(start)),
             Cell());
}

void AuditAlteredRoute(const std::string& name, const std::string& from, int64 unsent) {
  const Change change = Changes(from, RouteFace(name));
  if (change.names != "{}") {
    JsonObject detail;
    detail.AddRaw("changed", change.names);
    AddFilterChange(change, &detail);
    if (unsent > 0) {
      detail.Add("no_longer_wanted", unsent);
    }
    WriteAudit("alter_route", name, Cell(), detail, Cell());
  }
}

void AuditDroppedRoute(const std::string& name, const std::string& from, std::optional<int64> pending, int64 parked) {
  JsonObject detail;
  detail.AddRaw("from", from);
  if (pending) {
    detail.Add("pending", *pending);
  }
  WriteAudit("drop_route", name, Cell(), detail.Add("parked", parked), Cell());
}

void AuditRouteByHand(const std::string& from, const Cell& to, const char* by) {
  constexpr const char* kFace =
      "SELECT r.name, " FACE ", jsonb_build_object('name', r.name) || " FACE " FROM (SELECT ($1::outbox.route).*) r";
  const Row before = RunSql(Access::kWrite, kFace, {Cell(from)})[0];
  if (!to) {
    WriteAudit("drop_route", before[0], Cell(), JsonObject().AddRaw("from", before[1].value()).Add("by", Cell(by)),
               Cell());
    return;
  }
  const Change change = Changes(before[2].value(), RunSql(Access::kWrite, kFace, {to})[0][2].value());
  if (change.names != "{}") {
    JsonObject detail;
    detail.AddRaw("changed", change.names).Add("by", Cell(by));
    AddFilterChange(change, &detail);
    WriteAudit("alter_route", before[0], Cell(), detail, Cell());
  }
}

void AuditRenamedServer(const char* from, const char* to) {
  JsonObject name;
  name.Add("from", Cell(from)).Add("to", Cell(to));
  WriteAudit("alter server", Cell(), Cell(),
             JsonObject().Add("server", Cell(to)).AddRaw("changed", JsonObject().AddRaw("name", name.Text()).Text()),
             Cell());
}

char* BeforeServerChange(Node* statement) {
  const char* server = ServerOf(statement);
  if (server == nullptr || !HasTables(kNeeded) ||
      RunSql(Access::kWrite, "SELECT FROM outbox.route WHERE server = $1::name LIMIT 1", {Cell(server)}).empty()) {
    return nullptr;
  }
  const std::string face = ServerFace(server);
  const char* text = face.c_str();
  return pg::Guard([text] { return pstrdup(text); });
}

char* BeforeOwnedChange() {
  if (!HasTables(kNeeded)) {
    return nullptr;
  }
  JsonObject faces;
  for (const Row& row : RunSql(Access::kWrite, "SELECT DISTINCT server FROM outbox.route")) {
    faces.AddRaw(row[0]->c_str(), ServerFace(row[0].value()));
  }
  const std::string all = faces.Text();
  const char* text = all.c_str();
  return pg::Guard([text] { return pstrdup(text); });
}

std::vector<std::string> AuditOwnedChange(Node* statement, const char* before) {
  std::vector<std::string> given;
  if (!HasTables(kNeeded)) {  // they were among it
    return given;
  }
  const char* by = IsA(statement, DropOwnedStmt) ? "DROP OWNED" : "REASSIGN OWNED";
  for (const Row& row :
       RunSql(Access::kRead, "SELECT s.key, s.value FROM jsonb_each($1::jsonb) s ORDER BY 1", {before})) {
    const Cell after = ServerFace(row[0].value());
    for (const Row& gone : RunSql(Access::kRead,
                                  "SELECT CASE m WHEN 'public' THEN 'PUBLIC' ELSE m END FROM jsonb_array_elements_text("
                                  "jsonb_path_query_array($1::jsonb, '$.mappings[*]')) m "
                                  "WHERE NOT coalesce($2::jsonb -> 'mappings', '[]') ? m ORDER BY 1",
                                  {row[1], after})) {
      WriteAudit("drop user mapping", Cell(), Cell(),
                 JsonObject().Add("server", row[0]).Add("for", gone[0]).Add("by", Cell(by)), Cell());
    }
    const Row faces = RunSql(Access::kRead,
                             "SELECT $1::jsonb - 'mappings', $2::jsonb - 'mappings', "
                             "$1::jsonb -> 'owner' <> $2::jsonb -> 'owner'",
                             {row[1], after})[0];
    const std::string changes = Changes(faces[0].value(), faces[1].value()).names;
    if (changes != "{}") {
      WriteAudit("alter server", Cell(), Cell(),
                 JsonObject().Add("server", row[0]).AddRaw("changed", changes).Add("by", Cell(by)), Cell());
    }
    if (faces[2] == "t") {
      given.push_back(row[0].value());
    }
  }
  return given;
}

void AuditServerChange(Node* statement, const char* before) {
  const std::string server = ServerOf(statement);
  const Mapping mapping = MappingOf(statement);
  const std::string changes = Changes(before, ServerFace(server)).names;
  JsonObject detail;
  detail.Add("server", Cell(server));
  if (mapping.action != nullptr) {
    if (changes == "{}" && !IsA(statement, AlterUserMappingStmt)) {
      return;  // IF EXISTS, IF NOT EXISTS
    }
    const std::string options = OptionNames(mapping.options);
    detail.Add("for", Cell(UserText(mapping.user))).Add("options", options.empty() ? Cell() : Cell(options));
    WriteAudit(mapping.action, Cell(), Cell(), detail, Cell());
    return;
  }
  if (changes != "{}") {
    WriteAudit("alter server", Cell(), Cell(), detail.AddRaw("changed", changes), Cell());
  }
}

}  // namespace outbox::admin
