#include "admin/server_commands.h"

#include <string>

#include "admin/loss.h"
#include "admin/query.h"
#include "admin/route_audit.h"
#include "pg/entry.h"
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

bool HasTable(const char* name) {
  return pg::Guard([name] {
    Oid schema = get_namespace_oid("outbox", true);
    return OidIsValid(schema) && OidIsValid(get_relname_relid(name, schema)) &&
           OidIsValid(get_extension_oid("outbox", true)) && !creating_extension;
  });
}

// Who may not drop the server is told so by the command itself, and nothing of routes.
bool Owns(const char* server) {
  return pg::Guard([server] {
    Oid oid = get_foreign_server_oid(server, true);
#if PG_VERSION_NUM >= 160000
    return OidIsValid(oid) && object_ownercheck(ForeignServerRelationId, oid, GetUserId());
#else
    return OidIsValid(oid) && pg_foreign_server_ownercheck(oid, GetUserId());
#endif
  });
}

void RefuseDrop(const char* server) {
  if (!HasTable("route") || !Owns(server)) {
    return;
  }
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

void Rename(const char* from, const char* to) {
  if (HasTable("route") &&
      !RunSql(Access::kWrite, "UPDATE outbox.route SET server = $2::name WHERE server = $1::name RETURNING id",
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
    pg::Entry(&AuditServerChange, statement, reinterpret_cast<const char*>(held));
  }
}

}  // namespace

const UtilityScope kAuditsServer = {BeforeChange, AfterChange};

bool DropsServer(Node* statement) {
  return reinterpret_cast<DropStmt*>(statement)->removeType == OBJECT_FOREIGN_SERVER;
}

void CheckDropServer(Node* statement) {
  const auto* drop = reinterpret_cast<DropStmt*>(statement);
  for (int i = 0; i < list_length(drop->objects); i++) {
    RefuseDrop(strVal(list_nth(drop->objects, i)));
  }
}

bool RenamesServer(Node* statement) {
  return reinterpret_cast<RenameStmt*>(statement)->renameType == OBJECT_FOREIGN_SERVER;
}

bool RenamesRole(Node* statement) {
  return reinterpret_cast<RenameStmt*>(statement)->renameType == OBJECT_ROLE;
}

void RenameRoleInRights(Node*) {
  if (HasTable("emit_right")) {  // not in a database of 0.1
    RunSql(Access::kWrite, "SELECT outbox._follow_role_names()");
  }
}

void RenameServerInRoutes(Node* statement) {
  const auto* rename = reinterpret_cast<RenameStmt*>(statement);
  Rename(strVal(rename->object), rename->newname);
}

}  // namespace outbox::admin
