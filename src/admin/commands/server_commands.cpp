#include "admin/commands/server_commands.h"

#include <string>

#include "admin/common/operation.h"
#include "admin/common/query.h"
#include "admin/common/route_audit.h"
#include "admin/guard/loss.h"
#include "pg/entry.h"
#include "pg/rights.h"
#include "pg/transaction_end.h"

extern "C" {
#include "catalog/namespace.h"
#include "catalog/pg_foreign_server.h"
#include "commands/extension.h"
#include "foreign/foreign.h"
#include "nodes/parsenodes.h"
#include "nodes/value.h"
}

namespace outbox::admin {

namespace {

constexpr const char* kOfRoutes[] = {"route", "audit", "pause"};
constexpr const char* kOfRights[] = {"emit_right"};  // not in a database of 0.1

// A role that may not drop the server is told so by the command itself, and nothing of routes.
bool Owns(const char* server) {
  return pg::Guard([server] {
    Oid oid = get_foreign_server_oid(server, true);
    return OidIsValid(oid) && pg::OwnsObject(ForeignServerRelationId, oid);
  });
}

void Rename(const char* from, const char* to) {
  if (!HasTables(kOfRoutes)) {
    return;
  }
  if (!RunSql(Access::kWrite, "UPDATE outbox.route SET server = $2::name WHERE server = $1::name RETURNING id",
              {Cell(from), Cell(to)})
           .empty()) {
    pg::NoteConfigChange();
    AuditRenamedServer(from, to);
  }
  // One of that name can only be of a server that is gone.
  RunSql(Access::kWrite, "DELETE FROM outbox.pause WHERE server = $1::name", {Cell(to)});
  if (!RunSql(Access::kWrite, "UPDATE outbox.pause SET server = $2::name WHERE server = $1::name RETURNING id",
              {Cell(from), Cell(to)})
           .empty()) {
    pg::NoteConfigChange();
  }
}

int64 BeforeChange(Node* statement, bool) {
  return reinterpret_cast<int64>(pg::Entry(&BeforeServerChange, statement));
}

void AfterChange(Node* statement, int64 held, bool done) {
  if (done && held != 0) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): what BeforeChange() returned
    pg::Entry(&AuditServerChange, statement, reinterpret_cast<const char*>(held));
  }
}

}  // namespace

const UtilityScope kAuditsServer = {BeforeChange, AfterChange};

bool DropsServer(Node* statement) {
  return reinterpret_cast<DropStmt*>(statement)->removeType == OBJECT_FOREIGN_SERVER;
}

void RefuseServerInUse(const char* server) {
  Cell names = RunSql(Access::kWrite,
                      "SELECT string_agg(quote_literal(name), ', ' ORDER BY name) FROM outbox.route "
                      "WHERE server = $1::name",
                      {Cell(server)})[0][0];
  if (names) {
    const std::string undelivered = UndeliveredTo(server);
    throw pg::UserError{ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
                        "cannot drop server " + std::string(server) + " because routes of outbox use it",
                        "Routes: " + *names + "." + (undelivered.empty() ? "" : " Undelivered: " + undelivered),
                        "Use outbox.drop_route() or alter_route(..., server => ...) first."};
  }
}

void CheckDropServer(Node* statement) {
  const auto* drop = reinterpret_cast<DropStmt*>(statement);
  for (int i = 0; i < list_length(drop->objects); i++) {
    const char* server = strVal(list_nth(drop->objects, i));
    if (HasTables(kOfRoutes) && Owns(server)) {
      RefuseServerInUse(server);
    }
  }
}

bool DropsServerOrWrapper(Node* statement) {
  const ObjectType type = reinterpret_cast<DropStmt*>(statement)->removeType;
  return type == OBJECT_FOREIGN_SERVER || type == OBJECT_FDW;
}

void DropPausesOfServers(Node*) {
  if (!HasTables(kOfRoutes)) {
    return;
  }
  for (const Row& row : RunSql(Access::kWrite,
                               "DELETE FROM outbox.pause p WHERE p.server IS NOT NULL AND NOT EXISTS "
                               "(SELECT FROM pg_catalog.pg_foreign_server s WHERE s.srvname = p.server) "
                               "RETURNING p.server, p.paused_by, p.reason")) {
    Notice("the pause of destination \"" + row[0].value() + "\" goes with its server",
           "It was paused by " + row[1].value() + ", because: " + row[2].value());
    pg::NoteConfigChange();
  }
}

bool RenamesServer(Node* statement) {
  return reinterpret_cast<RenameStmt*>(statement)->renameType == OBJECT_FOREIGN_SERVER;
}

bool RenamesRole(Node* statement) {
  return reinterpret_cast<RenameStmt*>(statement)->renameType == OBJECT_ROLE;
}

void RenameRoleInRights(Node*) {
  if (HasTables(kOfRights)) {
    RunSql(Access::kWrite, "SELECT outbox_internal.follow_role_names()");
  }
}

void RenameServer(Node* statement) {
  const auto* rename = reinterpret_cast<RenameStmt*>(statement);
  Rename(strVal(rename->object), rename->newname);
}

}  // namespace outbox::admin
