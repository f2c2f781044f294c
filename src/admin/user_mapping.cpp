#include "admin/user_mapping.h"

#include <algorithm>

#include "admin/server.h"
#include "pg/guard.h"

extern "C" {
#include "access/genam.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "foreign/foreign.h"
#include "nodes/parsenodes.h"
#include "nodes/value.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/syscache.h"
}

namespace outbox::admin {

namespace {

constexpr const char* kPublic = "PUBLIC";

bool Installed() {
  return pg::Guard([] { return !creating_extension && OidIsValid(get_extension_oid("outbox", true)); });
}

// As SQL has it after FOR.
std::string RoleText(const std::string& role) {
  if (role == kPublic) {
    return role;
  }
  const char* name = role.c_str();
  return pg::Guard([name]() -> const char* { return quote_identifier(name); });
}

std::string ServerText(const std::string& server) {
  return RoleText(server);
}

void Say(const std::string& message, const std::string& detail, const std::string& hint) {
  const char* m = message.c_str();
  const char* d = detail.c_str();
  const char* h = hint.c_str();
  pg::Guard([=] {
    ereport(WARNING,
            (errcode(ERRCODE_WARNING), errmsg("%s", m), errdetail("%s", d), *h != '\0' ? errhint("%s", h) : 0));
  });
}

// Whose mapping the statement is about; "": nobody's any more.
std::string RoleOf(RoleSpec* user) {
  const char* name = pg::Guard([user]() -> const char* {
    return user->roletype == ROLESPEC_PUBLIC ? kPublic : GetUserNameFromId(get_rolespec_oid(user, true), true);
  });
  return name != nullptr ? name : "";
}

}  // namespace

UserMappings FindUserMappings(Access access, const std::string& server) {
  UserMappings found;
  std::string wrapper;
  found.ours = FindDestination(server, &wrapper).has_value();
  for (const Row& row :
       RunSql(access,
              "SELECT pg_get_userbyid(s.srvowner), pg_get_userbyid(e.extowner), "
              "CASE WHEN m.umuser = 0 THEN 'PUBLIC' ELSE pg_get_userbyid(m.umuser) END, "
              "m.umuser IN (s.srvowner, e.extowner, 0) FROM pg_extension e, pg_foreign_server s LEFT JOIN "
              "pg_user_mappings m ON m.srvid = s.oid WHERE e.extname = 'outbox' AND s.srvname = $1::name "
              "ORDER BY m.umuser IS NOT DISTINCT FROM s.srvowner DESC, m.umuser IS NOT DISTINCT FROM e.extowner DESC, "
              "m.umuser",
              {Cell(server)})) {
    found.server_owner = row[0].value();
    found.extension_owner = row[1].value();
    if (row[2] && row[3] == "t" && found.used.empty()) {
      found.used = *row[2];
    } else if (row[2]) {
      found.unused.push_back(*row[2]);
    }
  }
  return found;
}

namespace {

// Plain, except for what it fills.
bool ReadMapping(Oid user, Oid server, sink::OptionList* out) {
  HeapTuple tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(user), ObjectIdGetDatum(server));
  if (!HeapTupleIsValid(tuple)) {
    return false;
  }
  bool null = true;
  const Datum options = SysCacheGetAttr(USERMAPPINGUSERSERVER, tuple, Anum_pg_user_mapping_umoptions, &null);
  List* list = null ? NIL : untransformRelOptions(options);
  ListCell* cell = nullptr;
  foreach (cell, list) {
    DefElem* option = static_cast<DefElem*>(lfirst(cell));
    const char* value = defGetString(option);
    out->emplace_back(option->defname, value);
  }
  ReleaseSysCache(tuple);
  return true;
}

Oid ExtensionOwner() {
  Relation relation = table_open(ExtensionRelationId, AccessShareLock);
  ScanKeyData key;
  ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum("outbox"));
  SysScanDesc scan = systable_beginscan(relation, ExtensionNameIndexId, true, nullptr, 1, &key);
  HeapTuple tuple = systable_getnext(scan);
  const Oid owner =
      HeapTupleIsValid(tuple) ? reinterpret_cast<Form_pg_extension>(GETSTRUCT(tuple))->extowner : InvalidOid;
  systable_endscan(scan);
  table_close(relation, AccessShareLock);
  return owner;
}

}  // namespace

sink::OptionList UsedMapping(unsigned int server_oid) {
  sink::OptionList options;
  sink::OptionList* out = &options;
  pg::Guard([server_oid, out] {
    (void)(ReadMapping(GetForeignServer(server_oid)->owner, server_oid, out) ||
           ReadMapping(ExtensionOwner(), server_oid, out) || ReadMapping(InvalidOid, server_oid, out));
  });
  return options;
}

std::string UserMappingRule(const UserMappings& mappings) {
  return "Relay workers use the mapping of the server's owner (" + mappings.server_owner +
         "), else that of the extension's owner (" + mappings.extension_owner + "), else that of PUBLIC.";
}

void WarnOfUnusedMapping(Node* statement) {
  const bool creates = IsA(statement, CreateUserMappingStmt);
  auto* create = reinterpret_cast<CreateUserMappingStmt*>(statement);
  auto* alter = reinterpret_cast<AlterUserMappingStmt*>(statement);
  const std::string server = creates ? create->servername : alter->servername;
  if (!Installed()) {
    return;
  }
  const UserMappings mappings = FindUserMappings(Access::kWrite, server);
  const std::string role = RoleOf(creates ? create->user : alter->user);
  if (!mappings.ours || std::find(mappings.unused.begin(), mappings.unused.end(), role) == mappings.unused.end()) {
    return;
  }
  const std::string to = mappings.used.empty() ? kPublic : mappings.used;
  Say("nobody uses the user mapping of " + RoleText(role) + " for server " + ServerText(server),
      UserMappingRule(mappings),
      (mappings.used.empty() ? "CREATE USER MAPPING FOR " : "The one that is used: ALTER USER MAPPING FOR ") +
          RoleText(to) + " SERVER " + ServerText(server) + " OPTIONS (...).");
}

void WarnOfUnusedMappings(Node* statement) {
  const std::string server = strVal(reinterpret_cast<AlterOwnerStmt*>(statement)->object);
  if (!Installed()) {
    return;
  }
  const UserMappings mappings = FindUserMappings(Access::kWrite, server);
  if (!mappings.ours || mappings.unused.empty()) {
    return;
  }
  Say(mappings.used.empty()
          ? "server " + ServerText(server) + " is used without a user mapping now"
          : "server " + ServerText(server) + " is used with the user mapping of " + RoleText(mappings.used) + " now",
      UserMappingRule(mappings),
      mappings.used.empty() ? "CREATE USER MAPPING FOR PUBLIC SERVER " + ServerText(server) + " OPTIONS (...)." : "");
}

}  // namespace outbox::admin
