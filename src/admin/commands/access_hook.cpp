#include "admin/commands/access_hook.h"

#include "admin/commands/foreign_keys.h"
#include "admin/commands/loss_of_objects.h"
#include "admin/commands/rows_of_another_version.h"
#include "admin/commands/trigger_commands.h"
#include "pg/entry.h"

extern "C" {
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_trigger.h"
}

namespace outbox::admin {

namespace {

object_access_hook_type previous_hook = nullptr;

// What one part has to do with one kind of access.
struct Watch {
  ObjectAccessType access;
  Oid catalog = InvalidOid;                         // InvalidOid: any
  bool (*concerns)(const ObjectAccess&) = nullptr;  // plain and cheap; nullptr: always
  void (*judge)(const ObjectAccess&);               // refuses by throwing; may own things
};

constexpr Watch kWatches[] = {
    {.access = OAT_DROP, .concerns = TakesAway, .judge = CheckTakenAway},
    {.access = OAT_TRUNCATE, .catalog = RelationRelationId, .concerns = EmptiesOurTable, .judge = CheckEmptied},
    {.access = OAT_POST_CREATE, .catalog = TriggerRelationId, .concerns = CallsForUser, .judge = CheckMadeTrigger},
    {.access = OAT_POST_CREATE, .catalog = ConstraintRelationId, .judge = CheckMadeConstraint},
};

// Plain: the next hook may raise straight through this frame.
void OnAccess(ObjectAccessType access, Oid catalog, Oid object, int column, void* argument) {
  if (previous_hook != nullptr) {
    previous_hook(access, catalog, object, column, argument);
  }
  // pg_upgrade and single-user mode rebuild and mend: nothing is to stand in their way.
  if (!IsUnderPostmaster || IsBinaryUpgrade) {
    return;
  }
  const ObjectAccess told = {catalog, object, column, argument};
  for (const Watch& watch : kWatches) {
    if (watch.access == access && (watch.catalog == InvalidOid || watch.catalog == catalog) &&
        (watch.concerns == nullptr || watch.concerns(told))) {
      pg::Entry(watch.judge, told);
    }
  }
}

}  // namespace

void InstallAccessHook() {
  previous_hook = object_access_hook;
  object_access_hook = OnAccess;
}

}  // namespace outbox::admin
