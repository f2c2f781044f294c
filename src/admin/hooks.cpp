#include "admin/hooks.h"

#include <string>
#include <vector>

#include "admin/changes.h"
#include "admin/query.h"
#include "pg/entry.h"

extern "C" {
#include "catalog/namespace.h"
#include "catalog/pg_foreign_server.h"
#include "foreign/foreign.h"
#include "nodes/parsenodes.h"
#include "nodes/value.h"
#include "tcop/utility.h"
}

namespace outbox::admin {

namespace {

ProcessUtility_hook_type previous_hook = nullptr;

bool HasRoutes() {
  return pg::Guard([] {
    Oid schema = get_namespace_oid("outbox", true);
    return OidIsValid(schema) && OidIsValid(get_relname_relid("route", schema)) &&
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
  if (!HasRoutes() || !Owns(server)) {
    return;
  }
  Cell names = RunSql(Access::kWrite,
                      "SELECT string_agg(quote_literal(name), ', ' ORDER BY name) FROM outbox.route "
                      "WHERE server = $1::name",
                      {Cell(server)})[0][0];
  if (names) {
    throw pg::UserError{ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
                        "cannot drop server " + std::string(server) + " because routes of outbox use it",
                        "Routes: " + *names + ".", "Use outbox.drop_route() or alter_route(..., server => ...) first."};
  }
}

void Rename(const char* from, const char* to) {
  if (HasRoutes() &&
      !RunSql(Access::kWrite, "UPDATE outbox.route SET server = $2::name WHERE server = $1::name RETURNING id",
              {Cell(from), Cell(to)})
           .empty()) {
    NoteConfigChange();
  }
}

int BeforeCommand(Node* statement) {
  if (IsA(statement, DropStmt)) {
    DropStmt* drop = reinterpret_cast<DropStmt*>(statement);
    if (drop->removeType == OBJECT_FOREIGN_SERVER) {
      for (int i = 0; i < list_length(drop->objects); i++) {
        RefuseDrop(strVal(list_nth(drop->objects, i)));
      }
    }
  }
  return 0;
}

bool RenamesServer(Node* statement) {
  return IsA(statement, RenameStmt) && reinterpret_cast<RenameStmt*>(statement)->renameType == OBJECT_FOREIGN_SERVER;
}

int AfterRename(Node* statement) {
  RenameStmt* rename = reinterpret_cast<RenameStmt*>(statement);
  Rename(strVal(rename->object), rename->newname);
  return 0;
}

// Plain: the next hook may raise straight through this frame. After it the statement may be gone (COMMIT frees it).
void OnUtility(PlannedStmt* statement, const char* query, bool read_only_tree, ProcessUtilityContext context,
               ParamListInfo params, QueryEnvironment* environment, DestReceiver* receiver,
               QueryCompletion* completion) {
  pg::Entry(&BeforeCommand, statement->utilityStmt);
  bool renames = RenamesServer(statement->utilityStmt);
  (previous_hook != nullptr ? previous_hook : standard_ProcessUtility)(statement, query, read_only_tree, context,
                                                                       params, environment, receiver, completion);
  if (renames) {
    pg::Entry(&AfterRename, statement->utilityStmt);
  }
}

}  // namespace

void InstallServerHook() {
  previous_hook = ProcessUtility_hook;
  ProcessUtility_hook = OnUtility;
}

}  // namespace outbox::admin
