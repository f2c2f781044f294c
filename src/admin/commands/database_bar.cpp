#include "admin/commands/database_bar.h"

#include "base/monotonic.h"
#include "pg/rights.h"
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

namespace outbox::admin {

namespace {

constexpr int kAskMs = 3000;        // leaving in good order
constexpr int kTerminateMs = 2000;  // the command itself waits five seconds more

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
      // template1 is what PostgreSQL takes where none is named.
      name = option != nullptr && option->arg != nullptr ? defGetString(option) : "template1";
      copies = true;
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
  return pg::OwnsObject(DatabaseRelationId, database) ? database : InvalidOid;
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
  const int64 start = MonotonicMicros();
  bool terminated = false;
  pg::AskWorkersToStop(database);
  while (pg::CountWorkers(database) > 0) {
    const int64 waited_ms = (MonotonicMicros() - start) / 1000;
    if (!terminated && waited_ms >= kAskMs) {
      pg::TerminateWorkers(database);
      terminated = true;
    }
    if (waited_ms >= kAskMs + kTerminateMs) {
      return;  // the command fails by itself and lists the sessions still connected
    }
    pg::WaitForLatch(10, wait_event);
    CHECK_FOR_INTERRUPTS();
  }
}

// The database in the lower half, and above it whether the bar is ours.
constexpr int64 kBarIsOurs = INT64CONST(1) << 32;

// In a transaction block these commands fail by themselves, all but the renaming; then no worker is to be disturbed.
int64 Enter(Node* statement, bool alone) {
  const Oid database = alone || IsA(statement, RenameStmt) ? DatabaseToBar(statement) : InvalidOid;
  if (database == InvalidOid || !SetBar(database)) {
    return database;
  }
  PG_TRY();
  { WaitUntilWorkersAreGone(database); }
  PG_CATCH();
  {
    LiftBar(database);
    PG_RE_THROW();
  }
  PG_END_TRY();
  return database | kBarIsOurs;
}

void Leave(Node*, int64 held, bool) {
  if ((held & kBarIsOurs) != 0) {
    LiftBar(static_cast<Oid>(held & PG_UINT32_MAX));
  }
}

void LeaveDropped(Node* statement, int64 held, bool done) {
  if (done && held != 0) {
    pg::FreeDatabaseSlot(static_cast<Oid>(held & PG_UINT32_MAX), true);
  }
  Leave(statement, held, done);
}

}  // namespace

bool RenamesDatabase(Node* statement) {
  return pg::Shared() != nullptr && reinterpret_cast<RenameStmt*>(statement)->renameType == OBJECT_DATABASE;
}

const UtilityScope kNeedsDatabase = {Enter, Leave};
const UtilityScope kDropsDatabase = {Enter, LeaveDropped};

}  // namespace outbox::admin
