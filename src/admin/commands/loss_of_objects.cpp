#include "admin/commands/loss_of_objects.h"

#include "admin/commands/own_relations.h"
#include "admin/commands/server_commands.h"
#include "admin/commands/trigger_commands.h"
#include "admin/guard/forgetting.h"
#include "admin/guard/loss.h"
#include "days/day_table_ddl.h"
#include "pg/guard.h"
#include "pg/owner.h"
#include "pg/schemas.h"
#include "pg/settings.h"

extern "C" {
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "commands/user.h"
#include "foreign/foreign.h"
}

namespace outbox::admin {

namespace {

using pg::Guard;

// The innermost that this session is running.
DropCommand* running = nullptr;

void JudgeWhole(DropCommand* command, const std::string& name) {
  if (!command->whole_checked) {
    JudgeLoss(FindLoss({}), name, command->drops_tables);
    if (!command->drops_tables) {
      JudgeForgetting(name);
    }
    command->whole_checked = true;
  }
}

// Called before the first object goes that the check needs; all that goes with it is locked by now.
void BeforeDrop(Oid catalog, Oid object) {
  if (!StateTablesExist()) {
    return;
  }
  DropCommand no_command = {};
  DropCommand* command = running != nullptr ? running : &no_command;
  if (catalog == ForeignServerRelationId) {
    const char* server = Guard([object]() -> const char* {
      ForeignServer* found = GetForeignServerExtended(object, FSV_MISSING_OK);
      ForeignDataWrapper* wrapper = found == nullptr ? nullptr : GetForeignDataWrapper(found->fdwid);
      bool ours = wrapper != nullptr && strncmp(wrapper->fdwname, "outbox_", strlen("outbox_")) == 0;
      return ours ? found->servername : nullptr;
    });
    if (server != nullptr && !command->whole_checked) {
      JudgeLoss(FindLoss({.server = server}), std::string("drop server ") + server, true,
                "routes to it have undelivered events");
      if (command->drops_owned && !pg::settings.allow_loss) {
        RefuseServerInUse(server, true);
      }
    }
    return;
  }
  if (catalog == TriggerRelationId) {
    CheckTakenTrigger(object);
    return;
  }
  if (!command->drops_tables) {
    JudgeWhole(command, "drop extension outbox");
    return;
  }
  if (catalog != RelationRelationId) {
    return;
  }
  if (IsDayTable(object)) {
    JudgeDayTable(object, "drop table");
    return;
  }
  if (IsStateTable(Guard([object]() -> const char* { return get_rel_name(object); }))) {
    JudgeWhole(command, "drop table " + NameOf(object));
  }
}

// Plain. Most objects do not belong to outbox, which one look-up finds out.
bool Concerns(Oid catalog, Oid object, int column) {
  if (catalog == ForeignServerRelationId) {
    return true;
  }
  if (catalog == TriggerRelationId) {
    return GoesWithExtension(object);
  }
  if (catalog == ExtensionRelationId) {
    return object == get_extension_oid("outbox", true);
  }
  // Views and functions are asked for the answer as well, and what was made last is dropped first.
  Oid schema = InvalidOid;
  if (catalog == RelationRelationId && column == 0) {
    schema = get_rel_namespace(object);
  } else if (catalog == ProcedureRelationId) {
    schema = get_func_namespace(object);
  }
  if (!pg::IsOurSchema(schema)) {
    return false;
  }
  char kind = catalog == RelationRelationId ? get_rel_relkind(object) : '\0';
  return kind == RELKIND_RELATION || kind == RELKIND_PARTITIONED_TABLE || IsMember(catalog, object);
}

// One of these roles owns the tables of outbox, so that they go as well. Plain.
bool OwnsExtension(List* roles) {
  const Oid log = pg::FindOurRelation("log");
  return OidIsValid(log) && list_member_oid(roleSpecsToIds(roles), pg::OwnerOf(log));
}

}  // namespace

void BeginDropCommand(Node* statement, DropCommand* command) {
  command->drops_tables =
      IsA(statement, DropStmt) && reinterpret_cast<DropStmt*>(statement)->removeType == OBJECT_TABLE;
  command->drops_owned =
      IsA(statement, DropOwnedStmt) && !OwnsExtension(reinterpret_cast<DropOwnedStmt*>(statement)->roles);
  command->whole_checked = false;
  command->outer = running;
  running = command;
}

void EndDropCommand(const DropCommand* command) {
  running = command->outer;
}

bool TakesAway(const ObjectAccess& access) {
  return !days::DroppingDayTable() &&
         (static_cast<ObjectAccessDrop*>(access.argument)->dropflags & PERFORM_DELETION_INTERNAL) == 0 &&
         Concerns(access.catalog, access.object, access.column);
}

void CheckTakenAway(const ObjectAccess& access) {
  BeforeDrop(access.catalog, access.object);
}

}  // namespace outbox::admin
