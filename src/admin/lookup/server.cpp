#include "admin/lookup/server.h"

#include <utility>

#include "admin/lookup/option_list.h"
#include "pg/guard.h"
#include "pg/rights.h"

extern "C" {
#include "catalog/pg_foreign_server.h"
#include "foreign/foreign.h"
#include "storage/lmgr.h"
}

namespace outbox::admin {

namespace {

// Plain, except for what it fills.
bool Lookup(const char* name, Destination* destination) {
  ForeignServer* server = GetForeignServerByName(name, true);
  if (server == nullptr) {
    return false;
  }
  destination->oid = server->serverid;
  const char* wrapper = GetForeignDataWrapper(server->fdwid)->fdwname;
  destination->wrapper = wrapper;
  destination->kind = sink::FindKind(destination->wrapper);
  AppendOptions(server->options, destination->kind, &destination->options);
  return true;
}

bool HasOption(const Destination& destination, std::string_view canonical) {
  for (const auto& [name, value] : destination.options) {
    if (sink::CanonicalOption(*destination.kind, name) == canonical && !value.empty()) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<Destination> FindDestination(const std::string& name, std::string* wrapper) {
  Destination destination;
  const char* text = name.c_str();
  const bool found = pg::Guard([&] { return Lookup(text, &destination); });
  if (wrapper != nullptr) {
    *wrapper = destination.wrapper;
  }
  return found && destination.kind != nullptr ? std::optional(std::move(destination)) : std::nullopt;
}

Destination KnownDestination(const std::string& name) {
  std::string wrapper;
  std::optional<Destination> found = FindDestination(name, &wrapper);
  if (!found && wrapper.empty()) {
    throw pg::UserError{ERRCODE_UNDEFINED_OBJECT, "server \"" + name + "\" does not exist", "",
                        "Make it with CREATE SERVER ... FOREIGN DATA WRAPPER " + sink::WrapperNames() + "."};
  }
  if (!found) {
    throw pg::UserError{ERRCODE_WRONG_OBJECT_TYPE, "server \"" + name + "\" is not a destination of outbox",
                        "It belongs to foreign-data wrapper " + wrapper + ".",
                        "Use a server of " + sink::WrapperNames() + "."};
  }
  return *found;
}

Destination UsableDestination(const std::string& name) {
  Destination found = KnownDestination(name);
  Oid oid = found.oid;
  if (!pg::Guard([&] { return pg::RightTo(ForeignServerRelationId, oid, ACL_USAGE) == ACLCHECK_OK; })) {
    throw pg::UserError{ERRCODE_INSUFFICIENT_PRIVILEGE, "permission denied for foreign server " + name, "",
                        "Its owner can GRANT USAGE ON FOREIGN SERVER to you."};
  }
  if (const sink::RequiredOption* missing = MissingOption(found); missing != nullptr) {
    const std::string option = "\"" + std::string(missing->name) + "\"";
    throw pg::UserError{ERRCODE_FDW_OPTION_NAME_NOT_FOUND, "server \"" + name + "\" has no option " + option,
                        missing->why, "ALTER SERVER ... OPTIONS (ADD " + option + " '" + missing->example + "')."};
  }
  return found;
}

Destination KeptDestination(const std::string& name) {
  for (;;) {
    Destination found = UsableDestination(name);
    if (KeepDestination(name, found)) {
      return found;
    }
  }
}

bool KeepDestination(const std::string& name, const Destination& destination) {
  const char* text = name.c_str();
  const Oid oid = destination.oid;
  return pg::Guard([text, oid] {
    LockDatabaseObject(ForeignServerRelationId, oid, 0, AccessShareLock);
    const bool same = get_foreign_server_oid(text, true) == oid;
    if (!same) {
      UnlockDatabaseObject(ForeignServerRelationId, oid, 0, AccessShareLock);
    }
    return same;
  });
}

const sink::RequiredOption* MissingOption(const Destination& destination) {
  const sink::RequiredOption& required = destination.kind->required;
  return required.name != nullptr && !HasOption(destination, required.name) ? &required : nullptr;
}

}  // namespace outbox::admin
