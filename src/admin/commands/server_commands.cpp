#include "admin/commands/server_commands.h"

#include <string>

#include "admin/commands/user_mapping.h"
#include "admin/common/operation.h"
#include "admin/common/query.h"
#include "admin/common/route_audit.h"
#include "admin/common/write_lock.h"
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
#include "storage/lmgr.h"
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

// Keeps routes and pauses from naming the server until the transaction ends, and waits for those who are about to:
// DROP SERVER takes this lock as well, but behind our question who uses the server. Plain.
void LockForDrop(const char* server) {
  for (Oid oid = get_foreign_server_oid(server, true); OidIsValid(oid);) {
    LockDatabaseObject(ForeignServerRelationId, oid, 0, AccessExclusiveLock);
    const Oid now = get_foreign_server_oid(server, true);
    if (now == oid) {
      return;
    }
    UnlockDatabaseObject(ForeignServerRelationId, oid, 0, AccessExclusiveLock);
    oid = now;
  }
}

// A transaction in REPEATABLE READ can neither see nor change what others have committed since it began.
void RefuseUnseen(const char* sql, const std::vector<Cell>& params) {
  if (!RunSql(Access::kLatest, sql, params).empty()) {
    throw pg::UserError{ERRCODE_T_R_SERIALIZATION_FAILURE, "could not serialize access due to concurrent update",
                        "Another transaction has named the server in a route or a pause of outbox.",
                        "Run the transaction again."};
  }
}

// RENAME has locked the server by then, so nobody else comes to name it.
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
  RefuseUnseen(
      "SELECT FROM outbox.route WHERE server = $1::name UNION ALL SELECT FROM outbox.pause WHERE server = $1::name",
      {Cell(from)});
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

int64 BeforeOwned(Node*, bool) {
  return reinterpret_cast<int64>(pg::Entry(&BeforeOwnedChange));
}

void TellOwnedChange(Node* statement, const char* before) {
  for (const std::string& server : AuditOwnedChange(statement, before)) {
    WarnOfUnusedMappings(server);
  }
}

void AfterOwned(Node* statement, int64 held, bool done) {
  if (done && held != 0) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): what BeforeOwned() returned
    pg::Entry(&TellOwnedChange, statement, reinterpret_cast<const char*>(held));
  }
}

}  // namespace

const UtilityScope kAuditsServer = {BeforeChange, AfterChange};
const UtilityScope kAuditsOwned = {BeforeOwned, AfterOwned};

bool DropsServer(Node* statement) {
  return reinterpret_cast<DropStmt*>(statement)->removeType == OBJECT_FOREIGN_SERVER;
}

void RefuseServerInUse(const char* server, bool owned) {
  Cell names = RunSql(Access::kLatest,
                      "SELECT string_agg(quote_literal(name), ', ' ORDER BY name) FROM outbox.route "
                      "WHERE server = $1::name",
                      {Cell(server)})[0][0];
  if (names) {
    const bool unknown = pg::Guard([] { return OtherVersion(); }) != nullptr;
    const std::string undelivered = unknown ? "" : UndeliveredTo(server);
    throw pg::UserError{
        ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
        "cannot drop server " + std::string(server) + " because routes of outbox use it",
        "Routes: " + *names + "." + (undelivered.empty() ? "" : " Undelivered: " + undelivered),
        unknown ? "ALTER EXTENSION outbox UPDATE, then use outbox.drop_route() or alter_route(..., server => ...)."
        : owned ? "Use outbox.drop_route() or alter_route(..., server => ...) first; or ALTER SERVER ... OWNER TO, "
                  "or REASSIGN OWNED, and the routes go on."
                : "Use outbox.drop_route() or alter_route(..., server => ...) first."};
  }
}

void CheckDropServer(Node* statement) {
  const auto* drop = reinterpret_cast<DropStmt*>(statement);
  for (int i = 0; i < list_length(drop->objects); i++) {
    const char* server = strVal(list_nth(drop->objects, i));
    if (HasTables(kOfRoutes) && Owns(server)) {
      pg::Guard([server] { LockForDrop(server); });
      RefuseServerInUse(server, false);
    }
  }
}

bool DropsServerOrWrapper(Node* statement) {
  const ObjectType type = reinterpret_cast<DropStmt*>(statement)->removeType;
  return type == OBJECT_FOREIGN_SERVER || type == OBJECT_FDW;
}

void LockPauses(Node*) {
  LockToWrite({"pause"});
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
  RefuseUnseen(
      "SELECT FROM outbox.pause p WHERE p.server IS NOT NULL AND NOT EXISTS "
      "(SELECT FROM pg_catalog.pg_foreign_server s WHERE s.srvname = p.server)",
      {});
}

bool RenamesServer(Node* statement) {
  return reinterpret_cast<RenameStmt*>(statement)->renameType == OBJECT_FOREIGN_SERVER;
}

bool RenamesRole(Node* statement) {
  return reinterpret_cast<RenameStmt*>(statement)->renameType == OBJECT_ROLE;
}

void FollowRoleNames(Node*) {
  if (HasTables(kOfRights)) {
    RunSql(Access::kWrite, "SELECT outbox_internal.follow_role_names()");
  }
}

void RenameServer(Node* statement) {
  const auto* rename = reinterpret_cast<RenameStmt*>(statement);
  Rename(strVal(rename->object), rename->newname);
}

}  // namespace outbox::admin
