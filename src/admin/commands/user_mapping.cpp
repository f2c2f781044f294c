#include "admin/commands/user_mapping.h"

#include <algorithm>

#include "pg/guard.h"

extern "C" {
#include "catalog/namespace.h"
#include "commands/extension.h"
#include "nodes/parsenodes.h"
#include "nodes/value.h"
#include "utils/acl.h"
#include "utils/builtins.h"
}

namespace outbox::admin {

namespace {

constexpr const char* kPublic = "PUBLIC";

bool Installed() {
  return pg::Guard([] { return !creating_extension && OidIsValid(get_extension_oid("outbox", true)); });
}

// As SQL has it after FOR.
std::string RoleText(const std::string& role) {
  return role == kPublic ? role : Identifier(role);
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

// The role whose mapping the statement is about; "": there is none any more.
std::string RoleOf(RoleSpec* user) {
  const char* name = pg::Guard([user]() -> const char* {
    return user->roletype == ROLESPEC_PUBLIC ? kPublic : GetUserNameFromId(get_rolespec_oid(user, true), true);
  });
  return name != nullptr ? name : "";
}

}  // namespace

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
  Say("nobody uses the user mapping of " + RoleText(role) + " for server " + Identifier(server),
      UserMappingRule(mappings),
      (mappings.used.empty() ? "CREATE USER MAPPING FOR " : "The one that is used: ALTER USER MAPPING FOR ") +
          RoleText(to) + " SERVER " + Identifier(server) + " OPTIONS (...).");
}

void WarnOfUnusedMappings(Node* statement) {
  WarnOfUnusedMappings(std::string(strVal(reinterpret_cast<AlterOwnerStmt*>(statement)->object)));
}

void WarnOfUnusedMappings(const std::string& server) {
  if (!Installed()) {
    return;
  }
  const UserMappings mappings = FindUserMappings(Access::kWrite, server);
  if (!mappings.ours || mappings.unused.empty()) {
    return;
  }
  Say(mappings.used.empty()
          ? "server " + Identifier(server) + " is used without a user mapping now"
          : "server " + Identifier(server) + " is used with the user mapping of " + RoleText(mappings.used) + " now",
      UserMappingRule(mappings),
      mappings.used.empty() ? "CREATE USER MAPPING FOR PUBLIC SERVER " + Identifier(server) + " OPTIONS (...)." : "");
}

}  // namespace outbox::admin
