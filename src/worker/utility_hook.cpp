// DROP, ALTER and copying of a database [P]: before 19 nothing makes a background worker let go of its database, and
// these commands wait five seconds and fail. So, once it is sure that the issuer may do it, the database is barred and
// its workers are asked to leave; afterwards, whatever happened, the bar is lifted and the launcher brings them back
// where the database still is. Plain code.
#include "worker/launcher.h"

#include "pg/transaction_end.h"
#include "pg/wait.h"
#include "pg/worker_slot.h"

extern "C" {
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"
}

namespace outbox::worker {

namespace {

constexpr int kAskMs = 3000;        // leaving in good order
constexpr int kTerminateMs = 2000;  // the command itself waits five seconds more

ProcessUtility_hook_type previous_hook = nullptr;

bool OwnsDatabase(Oid database) {
#if PG_VERSION_NUM >= 160000
  return object_ownercheck(DatabaseRelationId, database, GetUserId());
#else
  return pg_database_ownercheck(database, GetUserId());
#endif
}

bool MayCreateDatabases() {
  if (superuser()) {
    return true;
  }
  HeapTuple tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(GetUserId()));
  bool may = HeapTupleIsValid(tuple) && reinterpret_cast<Form_pg_authid>(GETSTRUCT(tuple))->rolcreatedb;
  if (HeapTupleIsValid(tuple)) {
    ReleaseSysCache(tuple);
  }
  return may;
}

DefElem* FindOption(List* options, const char* name) {
  ListCell* cell;
  foreach (cell, options) {
    DefElem* option = static_cast<DefElem*>(lfirst(cell));
    if (strcmp(option->defname, name) == 0) {
      return option;
    }
  }
  return nullptr;
}

// The database that the statement needs for itself, if the issuer may have it; else InvalidOid (the command itself
// then says what is wrong).
Oid DatabaseToBar(Node* statement) {
  const char* name = nullptr;
  bool copies = false;
  bool renames = false;
  switch (nodeTag(statement)) {
    case T_DropdbStmt:
      name = reinterpret_cast<DropdbStmt*>(statement)->dbname;
      break;
    case T_RenameStmt:
      if (reinterpret_cast<RenameStmt*>(statement)->renameType == OBJECT_DATABASE) {
        name = reinterpret_cast<RenameStmt*>(statement)->subname;
        renames = true;
      }
      break;
    case T_AlterDatabaseStmt:
      if (FindOption(reinterpret_cast<AlterDatabaseStmt*>(statement)->options, "tablespace") != nullptr) {
        name = reinterpret_cast<AlterDatabaseStmt*>(statement)->dbname;
      }
      break;
    case T_CreatedbStmt: {
      DefElem* option = FindOption(reinterpret_cast<CreatedbStmt*>(statement)->options, "template");
      if (option != nullptr && option->arg != nullptr) {
        name = defGetString(option);
        copies = true;
      }
      break;
    }
    default:
      break;
  }
  Oid database = name != nullptr ? get_database_oid(name, true) : InvalidOid;
  if (database == InvalidOid || (database == MyDatabaseId && !copies)) {
    return InvalidOid;  // one's own can be copied, but neither dropped nor moved nor renamed
  }
  if ((copies || renames) && !MayCreateDatabases()) {
    return InvalidOid;
  }
  return OwnsDatabase(database) ? database : InvalidOid;
}

// Destinations are foreign servers and user mappings; and workers are to notice that their extension goes.
bool ChangesConfiguration(Node* statement) {
  switch (nodeTag(statement)) {
    case T_CreateForeignServerStmt:
    case T_AlterForeignServerStmt:
    case T_CreateUserMappingStmt:
    case T_AlterUserMappingStmt:
    case T_DropUserMappingStmt:
    case T_AlterExtensionStmt:
      return true;
    case T_DropStmt: {
      ObjectType type = reinterpret_cast<DropStmt*>(statement)->removeType;
      return type == OBJECT_EXTENSION || type == OBJECT_FOREIGN_SERVER || type == OBJECT_FDW;
    }
    case T_RenameStmt: {
      ObjectType type = reinterpret_cast<RenameStmt*>(statement)->renameType;
      return type == OBJECT_FOREIGN_SERVER || type == OBJECT_FDW;
    }
    case T_AlterOwnerStmt:
      return reinterpret_cast<AlterOwnerStmt*>(statement)->objectType == OBJECT_FOREIGN_SERVER;
    default:
      return false;
  }
}

// Returns true if the bar is ours now.
bool SetBar(Oid database) {
  pg::DatabaseSlot* slot = pg::FindDatabaseSlot(database, false);
  bool set = false;
  if (slot != nullptr) {
    LWLockAcquire(pg::Shared()->lock, LW_EXCLUSIVE);
    if (slot->database == database && slot->barred_by == 0) {
      slot->barred_by = MyProcPid;
      set = true;
    }
    LWLockRelease(pg::Shared()->lock);
  }
  return set;
}

void LiftBar(Oid database) {
  pg::DatabaseSlot* slot = pg::FindDatabaseSlot(database, false);
  if (slot != nullptr) {
    LWLockAcquire(pg::Shared()->lock, LW_EXCLUSIVE);
    if (slot->database == database && slot->barred_by == MyProcPid) {
      slot->barred_by = 0;
    }
    LWLockRelease(pg::Shared()->lock);
  }
  pg::WakeLauncher();
}

// May raise (the user cancels).
void WaitUntilWorkersAreGone(Oid database) {
  static uint32 wait_event = 0;
  if (wait_event == 0) {
    wait_event = pg::WaitEventFor("OutboxStopWorkers");
  }
  TimestampTz start = GetCurrentTimestamp();
  bool terminated = false;
  pg::AskWorkersToStop(database);
  while (pg::CountWorkers(database) > 0) {
    TimestampTz now = GetCurrentTimestamp();
    if (!terminated && TimestampDifferenceExceeds(start, now, kAskMs)) {
      pg::TerminateWorkers(database);
      terminated = true;
    }
    if (TimestampDifferenceExceeds(start, now, kAskMs + kTerminateMs)) {
      return;  // the command fails by itself and lists the sessions still connected
    }
    pg::WaitForLatch(10, wait_event);
    CHECK_FOR_INTERRUPTS();
  }
}

void CallNext(PlannedStmt* planned, const char* query, bool read_only_tree, ProcessUtilityContext context,
              ParamListInfo params, QueryEnvironment* environment, DestReceiver* destination, QueryCompletion* done) {
  if (previous_hook != nullptr) {
    previous_hook(planned, query, read_only_tree, context, params, environment, destination, done);
  } else {
    standard_ProcessUtility(planned, query, read_only_tree, context, params, environment, destination, done);
  }
}

void UtilityHook(PlannedStmt* planned, const char* query, bool read_only_tree, ProcessUtilityContext context,
                 ParamListInfo params, QueryEnvironment* environment, DestReceiver* destination,
                 QueryCompletion* done) {
  NodeTag tag = nodeTag(planned->utilityStmt);
  // In a transaction block these commands fail by themselves, except for renaming; then no worker is to be disturbed.
  bool alone = context == PROCESS_UTILITY_TOPLEVEL && !IsTransactionBlock();
  bool relevant = pg::Shared() != nullptr && (alone || tag == T_RenameStmt);
  const Oid database = relevant ? DatabaseToBar(planned->utilityStmt) : InvalidOid;
  bool comes_or_goes = tag == T_DropdbStmt || tag == T_CreatedbStmt;
  if (database == InvalidOid && !comes_or_goes) {
    bool changes = pg::Shared() != nullptr && ChangesConfiguration(planned->utilityStmt);
    CallNext(planned, query, read_only_tree, context, params, environment, destination, done);
    if (changes) {
      pg::NoteDestinationChange();
    }
    if (tag == T_CreateSubscriptionStmt || tag == T_AlterSubscriptionStmt) {
      pg::WakeLauncherAtCommit(true);  // it may bring an outbox, whose days have to be made here
    }
    return;
  }
  const bool barred = database != InvalidOid && SetBar(database);
  PG_TRY();
  {
    if (barred) {
      WaitUntilWorkersAreGone(database);
    }
    CallNext(planned, query, read_only_tree, context, params, environment, destination, done);
    if (tag == T_DropdbStmt && database != InvalidOid) {
      pg::FreeDatabaseSlot(database, true);
    }
    // A copy of a database with the extension is to be looked at (it stays silent, and says so).
    if (comes_or_goes) {
      pg::WakeLauncherAtCommit(false);
    }
  }
  PG_FINALLY();
  {
    if (barred) {
      LiftBar(database);
    }
  }
  PG_END_TRY();
}

}  // namespace

void InstallUtilityHook() {
  previous_hook = ProcessUtility_hook;
  ProcessUtility_hook = UtilityHook;
}

}  // namespace outbox::worker
