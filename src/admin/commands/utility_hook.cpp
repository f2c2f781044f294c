#include "admin/commands/utility_hook.h"

#include "admin/commands/copy_commands.h"
#include "admin/commands/database_bar.h"
#include "admin/commands/loss_of_objects.h"
#include "admin/commands/object_commands.h"
#include "admin/commands/server_commands.h"
#include "admin/commands/setting_commands.h"
#include "admin/commands/table_commands.h"
#include "admin/commands/trigger_commands.h"
#include "admin/commands/user_mapping.h"
#include "admin/commands/view_locks.h"
#include "admin/guard/loss.h"
#include "pg/entry.h"
#include "pg/transaction_end.h"

extern "C" {
#include "nodes/parsenodes.h"
#include "tcop/utility.h"
}

namespace outbox::admin {

namespace {

ProcessUtility_hook_type previous_hook = nullptr;

// What one part has to do with one kind of statement. All questions are asked before the statement runs: a
// command that commits in the middle may free its tree.
struct Watch {
  NodeTag statement;
  bool (*concerns)(Node*) = nullptr;  // plain and cheap; nullptr: always
  void (*before)(Node*) = nullptr;    // refuses by throwing; may own things
  const UtilityScope* around = nullptr;
  void (*after)(Node*) = nullptr;  // it has succeeded; throws, may own things
};

bool HasWorkers(Node*) {
  return pg::Shared() != nullptr;
}

bool DropsDestination(Node* statement) {
  const ObjectType type = reinterpret_cast<DropStmt*>(statement)->removeType;
  return HasWorkers(statement) && (type == OBJECT_EXTENSION || DropsServerOrWrapper(statement));
}

// A wrapper by another name may be another kind of destination.
bool RenamesDestination(Node* statement) {
  const ObjectType type = reinterpret_cast<RenameStmt*>(statement)->renameType;
  return HasWorkers(statement) && (type == OBJECT_FOREIGN_SERVER || type == OBJECT_FDW);
}

bool ChangesServerOwner(Node* statement) {
  return reinterpret_cast<AlterOwnerStmt*>(statement)->objectType == OBJECT_FOREIGN_SERVER;
}

bool GivesServerAway(Node* statement) {
  return HasWorkers(statement) && ChangesServerOwner(statement);
}

// Destinations are foreign servers and user mappings; and workers are to notice that their extension goes.
void NoteDestination(Node*) {
  pg::Guard([] { pg::NoteDestinationChange(); });
}

// It may bring an outbox, whose days have to be made here.
void LookAtSubscriptions(Node*) {
  pg::Guard([] { pg::WakeLauncherAtCommit(true); });
}

// A copy of a database with the extension is to be looked at (it stays silent, and says so).
void ReadDatabases(Node*) {
  pg::Guard([] { pg::WakeLauncherAtCommit(false); });
}

constexpr Watch kWatches[] = {
    // Undelivered events, and what guards them.
    {.statement = T_DropStmt, .concerns = DropsTrigger, .before = CheckDropTrigger},
    {.statement = T_AlterExtensionContentsStmt, .before = CheckExtensionContents},
    // The tables of outbox, by other hands.
    {.statement = T_AlterTableStmt, .before = CheckAlterTable},
    {.statement = T_AlterTableStmt, .concerns = SwitchesTriggersOn, .after = KeepGuardsFiring},
    {.statement = T_DropStmt, .concerns = DropsPart, .before = CheckDropPart},
    {.statement = T_RenameStmt, .before = CheckRename},
    {.statement = T_AlterObjectSchemaStmt, .before = CheckSetSchema},
    {.statement = T_AlterObjectDependsStmt, .before = CheckDependency},
    {.statement = T_AlterSeqStmt, .before = CheckAlterSequence},
    {.statement = T_CreateFunctionStmt, .concerns = ReplacesFunction, .before = CheckReplaceFunction},
    {.statement = T_CreateStmt, .concerns = HasParent, .before = CheckCreateTable},
    {.statement = T_CreateForeignTableStmt, .concerns = HasParent, .before = CheckCreateTable},
    {.statement = T_IndexStmt, .before = CheckCreateIndex},
    {.statement = T_LockStmt, .concerns = LocksView, .before = CheckLock},
    {.statement = T_CopyStmt, .before = CheckCopy},
    {.statement = T_CopyStmt, .concerns = IsRestored, .around = &kWithoutForeignKeys, .after = CheckRestoredLanes},
    // Its functions, views, types and wrappers, by other hands.
    {.statement = T_RenameStmt, .before = CheckRenameObject},
    {.statement = T_AlterObjectSchemaStmt, .before = CheckMoveObject},
    {.statement = T_AlterFunctionStmt, .before = CheckAlterFunction},
    {.statement = T_AlterObjectDependsStmt, .before = CheckFunctionDependency},
    {.statement = T_AlterTableStmt, .before = CheckAlterView},
    {.statement = T_AlterDomainStmt, .before = CheckAlterDomain},
    {.statement = T_ViewStmt, .concerns = ReplacesView, .before = CheckReplaceView},
    {.statement = T_CreatePolicyStmt, .before = CheckCreatePolicy},
    {.statement = T_RuleStmt, .before = CheckCreateRule},
    {.statement = T_AlterFdwStmt, .before = CheckAlterWrapper},
    // Destinations.
    {.statement = T_DropStmt, .concerns = DropsServer, .before = CheckDropServer},
    {.statement = T_DropStmt, .concerns = DropsServerOrWrapper, .before = LockPauses, .after = DropPausesOfServers},
    {.statement = T_DropOwnedStmt, .before = LockPauses, .after = DropPausesOfServers},
    {.statement = T_RenameStmt, .concerns = RenamesServer, .after = RenameServer},
    {.statement = T_RenameStmt, .concerns = RenamesRole, .before = FollowRoleNames, .after = FollowRoleNames},
    {.statement = T_CreateForeignServerStmt, .concerns = HasWorkers, .after = NoteDestination},
    {.statement = T_AlterForeignServerStmt, .concerns = HasWorkers, .after = NoteDestination},
    {.statement = T_CreateUserMappingStmt, .concerns = HasWorkers, .after = NoteDestination},
    {.statement = T_AlterUserMappingStmt, .concerns = HasWorkers, .after = NoteDestination},
    {.statement = T_DropUserMappingStmt, .concerns = HasWorkers, .after = NoteDestination},
    {.statement = T_AlterExtensionStmt, .concerns = HasWorkers, .after = NoteDestination},
    {.statement = T_DropStmt, .concerns = DropsDestination, .after = NoteDestination},
    {.statement = T_RenameStmt, .concerns = RenamesDestination, .after = NoteDestination},
    {.statement = T_AlterOwnerStmt, .concerns = GivesServerAway, .after = NoteDestination},
    {.statement = T_ReassignOwnedStmt, .concerns = HasWorkers, .after = NoteDestination},
    {.statement = T_DropOwnedStmt, .concerns = HasWorkers, .after = NoteDestination},
    {.statement = T_CreateUserMappingStmt, .after = WarnOfUnusedMapping},
    {.statement = T_AlterUserMappingStmt, .after = WarnOfUnusedMapping},
    {.statement = T_AlterOwnerStmt, .concerns = ChangesServerOwner, .after = WarnOfUnusedMappings},
    {.statement = T_AlterForeignServerStmt, .around = &kAuditsServer},
    {.statement = T_CreateUserMappingStmt, .around = &kAuditsServer},
    {.statement = T_AlterUserMappingStmt, .around = &kAuditsServer},
    {.statement = T_DropUserMappingStmt, .around = &kAuditsServer},
    {.statement = T_AlterOwnerStmt, .around = &kAuditsServer},
    {.statement = T_ReassignOwnedStmt, .around = &kAuditsOwned},
    {.statement = T_DropOwnedStmt, .around = &kAuditsOwned},
    // Settings.
    {.statement = T_AlterSystemStmt, .concerns = SetsOfSystem, .before = AuditSettingOfSystem},
    {.statement = T_AlterDatabaseSetStmt, .concerns = SetsOfDatabase, .before = AuditSettingOfDatabase},
    {.statement = T_AlterRoleSetStmt, .concerns = SetsOfRole, .before = CheckSettingOfRole},
    {.statement = T_AlterRoleSetStmt, .concerns = SetsOfRole, .before = AuditSettingOfRole},
    // Databases.
    {.statement = T_DropdbStmt, .concerns = HasWorkers, .around = &kDropsDatabase, .after = ReadDatabases},
    {.statement = T_CreatedbStmt, .concerns = HasWorkers, .around = &kNeedsDatabase, .after = ReadDatabases},
    {.statement = T_AlterDatabaseStmt, .concerns = HasWorkers, .around = &kNeedsDatabase},
    {.statement = T_RenameStmt, .concerns = RenamesDatabase, .around = &kNeedsDatabase},
    {.statement = T_CreateSubscriptionStmt, .concerns = HasWorkers, .after = LookAtSubscriptions},
    {.statement = T_AlterSubscriptionStmt, .concerns = HasWorkers, .after = LookAtSubscriptions},
};

constexpr int kMostOfOneStatement = 8;

struct Call {
  PlannedStmt* planned;
  const char* query;
  bool read_only_tree;
  ProcessUtilityContext context;
  ParamListInfo params;
  QueryEnvironment* environment;
  DestReceiver* receiver;
  QueryCompletion* completion;
};

void CallNext(const Call& call) {
  (previous_hook != nullptr ? previous_hook : standard_ProcessUtility)(call.planned, call.query, call.read_only_tree,
                                                                       call.context, call.params, call.environment,
                                                                       call.receiver, call.completion);
}

void CallWithin(const UtilityScope* scope, const Call& call) {
  const bool alone = call.context == PROCESS_UTILITY_TOPLEVEL && !IsTransactionBlock();
  const int64 held = scope->enter(call.planned->utilityStmt, alone);
  PG_TRY();
  { CallNext(call); }
  PG_CATCH();
  {
    scope->leave(call.planned->utilityStmt, held, false);
    PG_RE_THROW();
  }
  PG_END_TRY();
  scope->leave(call.planned->utilityStmt, held, true);
}

void RunWatched(const Call& call) {
  Node* statement = call.planned->utilityStmt;
  const Watch* watches[kMostOfOneStatement];
  int count = 0;
  const UtilityScope* scope = nullptr;
  // pg_upgrade and single-user mode rebuild and mend: nothing is to stand in their way.
  for (const Watch& watch : kWatches) {
    if (watch.statement == nodeTag(statement) && IsUnderPostmaster && !IsBinaryUpgrade &&
        (watch.concerns == nullptr || watch.concerns(statement))) {
      Assert(count < kMostOfOneStatement);
      watches[count++] = &watch;
      scope = watch.around != nullptr ? watch.around : scope;
    }
  }
  for (int i = 0; i < count; i++) {
    if (watches[i]->before != nullptr) {
      pg::Entry(watches[i]->before, statement);
    }
  }
  if (scope != nullptr) {
    CallWithin(scope, call);
  } else {
    CallNext(call);
  }
  for (int i = 0; i < count; i++) {
    if (watches[i]->after != nullptr) {
      pg::Entry(watches[i]->after, statement);
    }
  }
}

// Plain: the next hook may raise straight through this frame.
void OnUtility(PlannedStmt* planned, const char* query, bool read_only_tree, ProcessUtilityContext context,
               ParamListInfo params, QueryEnvironment* environment, DestReceiver* receiver,
               QueryCompletion* completion) {
  const Call call = {planned, query, read_only_tree, context, params, environment, receiver, completion};
  DropCommand command;
  BeginDropCommand(planned->utilityStmt, &command);
  PG_TRY();
  { RunWatched(call); }
  PG_FINALLY();
  { EndDropCommand(&command); }
  PG_END_TRY();
}

}  // namespace

void InstallUtilityHook() {
  previous_hook = ProcessUtility_hook;
  ProcessUtility_hook = OnUtility;
}

}  // namespace outbox::admin
