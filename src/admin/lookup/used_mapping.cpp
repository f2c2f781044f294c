#include "admin/lookup/used_mapping.h"

#include "admin/lookup/server.h"
#include "pg/guard.h"

extern "C" {
#include "access/genam.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/syscache.h"
}

namespace outbox::admin {

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

}  // namespace outbox::admin
