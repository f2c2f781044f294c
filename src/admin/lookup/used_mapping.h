// Which user mapping of a server counts [P]: relay workers take the one of the server's owner, else that of the
// extension's owner, else that of PUBLIC (LoadDestinations in worker/destination_config.h). The others are used by
// nobody.
#pragma once

#include <string>
#include <vector>

#include "admin/common/query.h"
#include "sink/options.h"

namespace outbox::admin {

struct UserMappings {
  bool ours = false;  // the server is one of a wrapper of outbox
  std::string server_owner;
  std::string extension_owner;
  std::string used;                 // whose it is, or PUBLIC; "": there is none
  std::vector<std::string> unused;  // the others
};

// Throws PgError.
UserMappings FindUserMappings(Access access, const std::string& server);
// Its options, secrets included: never show them. Empty: there is none. Throws PgError.
sink::OptionList UsedMapping(unsigned int server_oid);
// A sentence that names the owners.
std::string UserMappingRule(const UserMappings& mappings);

}  // namespace outbox::admin
