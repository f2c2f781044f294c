#include "admin/hooks.h"

#include <string>
#include <vector>

#include "admin/loss.h"
#include "admin/query.h"
#include "admin/route_audit.h"
#include "emit/replica_role.h"
#include "pg/entry.h"
#include "pg/transaction_end.h"

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

// A role that may not drop the server gets the command's own error, which says nothing about routes.
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
    const std::string undelivered = UndeliveredTo(server);
    throw pg::UserError{ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
                        "cannot drop server " + std::string(server) + " because routes of outbox use it",
                        "Routes: " + *names + "." + (undelivered.empty() ? "" : " Undelivered: " + undelivered),
                        "Use outbox.drop_route() or alter_route(..., server => ...) first."};
  }
}

void Rename(const char* from, const char* to) {
  if (HasRoutes() &&
      !RunSql(Access::kWrite, "UPDATE outbox.route SET server = $2::name WHERE server = $1::name RETURNING id",
              {Cell(from), Cell(to)})
           .empty()) {
    pg::NoteConfigChange();
  }
}

// The oid of a relation named in a command; InvalidOid if there is none.
Oid Find(const RangeVar* relation) {
  return relation == nullptr ? InvalidOid : pg::Guard([relation] { return RangeVarGetRelid(relation, NoLock, true); });
}

// A role that was granted ALL on the tables of outbox has TRIGGER, too, and what such a trigger calls would run as the
// tables' owner: in workers, in adopt(), in create_route().
void CheckTrigger(const CreateTrigStmt* statement) {
  Oid relation = Find(statement->relation);
  bool refused = OidIsValid(relation) && pg::Guard([relation] {
                   return !creating_extension && get_rel_namespace(relation) == get_namespace_oid("outbox", true) &&
                          OidIsValid(get_extension_oid("outbox", true)) &&
#if PG_VERSION_NUM >= 160000
                          !object_ownercheck(RelationRelationId, relation, GetUserId());
#else
                          !pg_class_ownercheck(relation, GetUserId());
#endif
                 });
  if (refused) {
    throw pg::UserError{ERRCODE_INSUFFICIENT_PRIVILEGE,
                        "must be owner of the tables of outbox to create a trigger on them",
                        "It would be fired by background workers, with the rights of the owner.",
                        "Have a consumer of the events do it, or a trigger on your own table."};
  }
}

// Whether a dump may bring rows into this table of an outbox that is in use: events only, which are kept apart.
bool MayComeInto(const char* name) {
  return strcmp(name, "log") == 0 || strncmp(name, "log_", 4) == 0 || strcmp(name, "foreign_event") == 0 ||
         strcmp(name, "event") == 0 || strcmp(name, "audit") == 0;
}

// Positions, ticks, owners: lanes that work here would take those of a dump for their own.
void CheckRestore(Oid relation) {
  bool ours = pg::Guard([relation] {
    return get_rel_namespace(relation) == get_namespace_oid("outbox", true) &&
           OidIsValid(get_extension_oid("outbox", true)) && !creating_extension && !MayComeInto(get_rel_name(relation));
  });
  if (ours &&
      !RunSql(Access::kWrite, "SELECT FROM outbox.identity WHERE system_identifier || '/' || database = outbox._home()")
           .empty()) {
    throw pg::UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot restore into an outbox that is in use",
                        "What a dump says of positions is made of another server's transaction ids.",
                        "Restore into a new database, and keep applications away until it is restored."};
  }
}

void CheckCopy(const CopyStmt* statement) {
  Oid relation = statement->is_from ? Find(statement->relation) : InvalidOid;
  if (OidIsValid(relation)) {
    CheckRestore(relation);
  }
  if (OidIsValid(relation) && pg::Guard([relation] { return emit::InsertsWouldBeLost(relation); })) {
    throw pg::UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                        "cannot copy into outbox.event while session_replication_role is replica",
                        "COPY fires no trigger of a view then, and the events would be lost.",
                        "Use INSERT or outbox.emit_many(), or set session_replication_role to origin."};
  }
}

// pg_restore -j copies the tables of an extension in any order, the largest first, whatever foreign keys say: a dump
// holds every row that they ask for, but parked events came before their routes. So a COPY into tables of outbox checks
// no foreign key; log_guard fires all the same. Plain.
bool IsRestored(Node* statement) {
  if (!IsA(statement, CopyStmt)) {
    return false;
  }
  auto* copy = reinterpret_cast<CopyStmt*>(statement);
  if (!copy->is_from || copy->relation == nullptr || copy->relation->schemaname == nullptr ||
      strcmp(copy->relation->schemaname, "outbox") != 0 || !OidIsValid(get_extension_oid("outbox", true))) {
    return false;
  }
  static const char* const keyed[] = {"lane", "parked", "side_lane", "side_topic", "pause"};
  for (const char* name : keyed) {
    if (strcmp(copy->relation->relname, name) == 0) {
      return true;
    }
  }
  return false;
}

int BeforeCommand(Node* statement) {
  LookForLoss(statement);
  if (IsA(statement, CreateTrigStmt)) {
    CheckTrigger(reinterpret_cast<CreateTrigStmt*>(statement));
  } else if (IsA(statement, CopyStmt)) {
    CheckCopy(reinterpret_cast<CopyStmt*>(statement));
  } else if (IsA(statement, DropStmt)) {
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
  const char* server_before = pg::Entry(&BeforeServerChange, statement->utilityStmt);
  int guc_level = 0;
  if (IsRestored(statement->utilityStmt)) {
    guc_level = NewGUCNestLevel();
    (void)set_config_option("session_replication_role", "replica", PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
                            false);
  }
  (previous_hook != nullptr ? previous_hook : standard_ProcessUtility)(statement, query, read_only_tree, context,
                                                                       params, environment, receiver, completion);
  if (guc_level != 0) {
    AtEOXact_GUC(false, guc_level);
  }
  if (renames) {
    pg::Entry(&AfterRename, statement->utilityStmt);
  }
  if (server_before != nullptr) {
    pg::Entry(&AuditServerChange, statement->utilityStmt, server_before);
  }
}

}  // namespace

void InstallCommandHook() {
  previous_hook = ProcessUtility_hook;
  ProcessUtility_hook = OnUtility;
}

}  // namespace outbox::admin
