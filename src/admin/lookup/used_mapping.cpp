#include "admin/lookup/used_mapping.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "admin/lookup/option_list.h"
#include "admin/lookup/server.h"
#include "pg/guard.h"
#include "pg/own_extension.h"
#include "pg/rights.h"

extern "C" {
#include "access/reloptions.h"
#include "catalog/pg_user_mapping.h"
#include "foreign/foreign.h"
#include "utils/syscache.h"
}

namespace outbox::admin {

namespace {

Oid ToOid(const Cell& cell) {
  return static_cast<Oid>(std::strtoul(cell.value().c_str(), nullptr, 10));
}

}  // namespace

std::array<unsigned int, 3> RolesOfMapping(unsigned int server_owner, unsigned int extension_owner) {
  return {server_owner, pg::HasRightsOf(server_owner, extension_owner) ? extension_owner : server_owner, InvalidOid};
}

UserMappings FindUserMappings(Access access, const std::string& server) {
  UserMappings found;
  found.ours = FindDestination(server).has_value();
  Oid server_owner = InvalidOid;
  Oid extension_owner = InvalidOid;
  std::vector<std::pair<Oid, std::string>> mappings;
  for (const Row& row :
       RunSql(access,
              "SELECT s.srvowner, pg_get_userbyid(s.srvowner), e.extowner, pg_get_userbyid(e.extowner), m.umuser, "
              "CASE WHEN m.umuser = 0 THEN 'PUBLIC' ELSE pg_get_userbyid(m.umuser) END FROM pg_extension e, "
              "pg_foreign_server s LEFT JOIN pg_user_mappings m ON m.srvid = s.oid WHERE e.extname = 'outbox' AND "
              "s.srvname = $1::name ORDER BY m.umuser",
              {Cell(server)})) {
    server_owner = ToOid(row[0]);
    found.server_owner = row[1].value();
    extension_owner = ToOid(row[2]);
    found.extension_owner = row[3].value();
    if (row[4]) {
      mappings.emplace_back(ToOid(row[4]), row[5].value());
    }
  }
  const std::array<Oid, 3> roles = pg::Guard([=] { return RolesOfMapping(server_owner, extension_owner); });
  found.extension_owners = roles[1] == extension_owner;
  auto next = mappings.begin();
  for (Oid role : roles) {
    next = std::stable_partition(next, mappings.end(), [role](const auto& mapping) { return mapping.first == role; });
  }
  if (next != mappings.begin()) {  // those before it may count, in their order
    found.used = mappings.front().second;
    mappings.erase(mappings.begin());
  }
  for (const auto& mapping : mappings) {
    found.unused.push_back(mapping.second);
  }
  return found;
}

namespace {

// Plain, except for what it fills.
bool ReadMapping(Oid user, Oid server, const sink::SinkKind* kind, sink::OptionList* out) {
  HeapTuple tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(user), ObjectIdGetDatum(server));
  if (!HeapTupleIsValid(tuple)) {
    return false;
  }
  bool null = true;
  const Datum options = SysCacheGetAttr(USERMAPPINGUSERSERVER, tuple, Anum_pg_user_mapping_umoptions, &null);
  AppendOptions(null ? NIL : untransformRelOptions(options), kind, out);
  ReleaseSysCache(tuple);
  return true;
}

}  // namespace

sink::OptionList UsedMapping(const sink::SinkKind& kind, unsigned int server_oid) {
  sink::OptionList options;
  sink::OptionList* out = &options;
  const sink::SinkKind* of = &kind;
  pg::Guard([server_oid, of, out] {
    for (Oid role : RolesOfMapping(GetForeignServer(server_oid)->owner, pg::ReadOwnExtension().owner)) {
      if (ReadMapping(role, server_oid, of, out)) {
        break;
      }
    }
  });
  return options;
}

std::string UserMappingRule(const UserMappings& mappings) {
  const std::string owner =
      "Relay workers use the mapping of the server's owner (" + mappings.server_owner + "), else ";
  return mappings.extension_owners
             ? owner + "that of the extension's owner (" + mappings.extension_owner + "), else that of PUBLIC."
             : owner + "that of PUBLIC. That of the extension's owner (" + mappings.extension_owner +
                   ") is not for a server whose owner has not his rights.";
}

}  // namespace outbox::admin
