// Which user mapping of a server counts [P]: relay workers take the one of the server's owner, else that of the
// extension's owner, if the server's has his rights, else that of PUBLIC. The others are used by nobody.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "admin/common/query.h"
#include "sink/options.h"

namespace outbox::admin {

struct UserMappings {
  bool ours = false;  // the server is one of a wrapper of outbox
  std::string server_owner;
  std::string extension_owner;
  bool extension_owners = false;    // his counts
  std::string used;                 // whose it is, or PUBLIC; "": there is none
  std::vector<std::string> unused;  // the others
};

// Whose mapping it is, as oids (0: of PUBLIC): the first of them that has one. The server's owner comes first, for
// another role's secrets are not for brokers that the owner picks; so the extension's owner, who is a superuser as a
// rule, has no say where the server's has not his rights. Plain.
std::array<unsigned int, 3> RolesOfMapping(unsigned int server_owner, unsigned int extension_owner);
// Throws PgError.
UserMappings FindUserMappings(Access access, const std::string& server);
// Its options, secrets included: never show them. Empty: there is none. Throws PgError.
sink::OptionList UsedMapping(const sink::SinkKind& kind, unsigned int server_oid);
// A sentence that names the owners.
std::string UserMappingRule(const UserMappings& mappings);

}  // namespace outbox::admin
