#include "pg/transaction_end.h"

#include "base/fault_point.h"
#include "pg/clock.h"
#include "pg/lone_emit.h"
#include "pg/worker_slot.h"

namespace outbox::pg {

namespace {

TransactionCounter counter;
DatabaseSlot* my_slot = nullptr;
bool emitted = false;
bool emitted_to_spare = false;
bool lone = false;  // and the transaction changes nothing else
int32 first_day = 0;
int32 last_day = 0;

// What else the workers and the launcher are told when the transaction commits.
struct {
  bool config;
  bool parked;
  bool erasure;
  bool destinations;
  bool wake;
  bool discover;
} notes;

// Whether what the transaction did still stands, and was not rolled back with a savepoint.
class Standing {
 public:
  explicit operator bool() const { return level_ != 0; }
  void Note() {
    const int level = Max(GetCurrentTransactionNestLevel(), 1);
    level_ = level_ == 0 ? level : Min(level_, level);
  }
  // Called while the savepoint is still the current level.
  void AtSavepointEnd(SubXactEvent event) {
    const int level = GetCurrentTransactionNestLevel();
    if (level_ < level) {
      return;
    }
    if (event == SUBXACT_EVENT_COMMIT_SUB) {
      level_ = level - 1;
    } else if (event == SUBXACT_EVENT_ABORT_SUB) {
      level_ = 0;
    }
  }

 private:
  int level_ = 0;  // the outermost of transaction and savepoints in which it stands; 0: in none
};

// A change of routes or parked events. What was rolled back is told of all the same, and is no reason to refuse
// anything.
Standing changed;
// An event of the caller's own.
Standing caller_emitted;

void RefusePrepare() {
  if (changed) {
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("cannot prepare a transaction that changed routes or parked events of outbox"),
                    errdetail("The workers are told of the change when the transaction commits."),
                    errhint("Use COMMIT instead of PREPARE TRANSACTION.")));
  }
}

// FindDatabaseSlot takes a light-weight lock, which does not raise. A change of routes makes a slot where there is none
// (the first route of a database); a destination without routes concerns no worker yet.
void TellWorkers(bool config, bool parked) {
  DatabaseSlot* slot = FindDatabaseSlot(MyDatabaseId, notes.config && config);
  if (slot == nullptr) {
    return;
  }
  if (config) {
    pg_atomic_fetch_add_u64(&slot->config_generation, 1);
  }
  if (parked) {
    pg_atomic_fetch_add_u64(&slot->parked_generation, 1);
  }
  if (notes.erasure) {
    pg_atomic_fetch_add_u64(&slot->erasures, 1);
  }
  WakeWorkers(MyDatabaseId, true);
  if (config && notes.config && !slot->active) {
    RequestDiscovery(MyDatabaseId);
  }
}

void OnCommit() {
  if (notes.discover) {
    ForgetClockCeiling();  // of an extension that may have been dropped and recreated
    RequestDiscovery(MyDatabaseId);
  } else if (notes.wake) {
    WakeLauncher();
  }
  if (notes.config || notes.parked || notes.erasure || notes.destinations) {
    OUTBOX_FAULT_POINT("config.committed");
    TellWorkers(notes.config || notes.destinations, notes.parked);
  }
}

// COMMIT and ABORT run after the transaction has become visible, with interrupts held. Nothing may raise or allocate
// then: an error takes the whole server down (the transaction can no longer be aborted).
void OnTransactionEnd(XactEvent event, void*) {
  counter.transaction_ends(event);
  if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE) {
    lone = caller_emitted && JudgeLoneEmit();
  }
  if (event == XACT_EVENT_PRE_PREPARE) {
    RefusePrepare();
  } else if (event == XACT_EVENT_COMMIT) {
    OnCommit();
  } else if ((event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE) && notes.parked) {
    TellWorkers(false, true);  // what a savepoint had locked is free again, too
  }
  ClockAtTransactionEnd(event);  // asks for what was emitted
  switch (event) {
    case XACT_EVENT_COMMIT:
      // The database may have got its slot since.
      if (DatabaseSlot* slot = emitted ? MyDatabaseSlot() : nullptr; slot != nullptr) {
        OUTBOX_FAULT_POINT("emit.committed");
        pg_atomic_fetch_add_u64(&slot->emitting_commits, 1);
        if (lone) {
          pg_atomic_fetch_add_u64(&slot->lone_emits.count, 1);
          pg_atomic_write_u64(&slot->lone_emits.last_at, static_cast<uint64>(GetCurrentTransactionStopTimestamp()));
        }
        WakeWorkers(MyDatabaseId, false);
      }
      break;
    case XACT_EVENT_PREPARE:  // COMMIT PREPARED runs no callback: the workers' poll finds those events
    case XACT_EVENT_ABORT:
      break;
    default:
      return;
  }
  emitted = false;
  emitted_to_spare = false;
  caller_emitted = {};
  lone = false;
  notes = {};
  changed = {};
}

void OnSavepointEnd(SubXactEvent event, SubTransactionId, SubTransactionId, void*) {
  counter.savepoint_ends(event);
  changed.AtSavepointEnd(event);
  caller_emitted.AtSavepointEnd(event);
}

}  // namespace

void RegisterTransactionEnd(const TransactionCounter& with) {
  counter = with;
  RegisterXactCallback(OnTransactionEnd, nullptr);
  RegisterSubXactCallback(OnSavepointEnd, nullptr);
}

DatabaseSlot* MyDatabaseSlot() {
  // The launcher may have freed the slot of a database that had no extension when it looked.
  if (my_slot == nullptr || my_slot->database != MyDatabaseId) {
    my_slot = FindDatabaseSlot(MyDatabaseId, true);
  }
  return my_slot;
}

void NoteEmitted(int32 day) {
  if (!emitted) {
    emitted = true;
    first_day = day;
    last_day = day;
  }
  first_day = Min(first_day, day);
  last_day = Max(last_day, day);
  // The row is in the table by now and cannot have been committed: days/log_table_list counts on both.
  if (emitted_to_spare && Shared() != nullptr) {
    pg_atomic_fetch_add_u64(&Shared()->spare_writes, 1);
  }
}

void NoteCallerEmitted() {
  caller_emitted.Note();
}

void NoteEmittedToSpare() {
  emitted_to_spare = true;
}

bool EmittedToSpare() {
  return emitted_to_spare;
}

bool EmittedDays(int32* first, int32* last) {
  *first = first_day;
  *last = last_day;
  return emitted;
}

void NoteConfigChange() {
  notes.config = true;
  changed.Note();
}

void NoteParkedChange() {
  notes.parked = true;
  changed.Note();
}

void NoteErasure() {
  notes.erasure = true;
}

void NoteDestinationChange() {
  notes.destinations = true;
}

void WakeLauncherAtCommit(bool discover) {
  if (Shared() == nullptr) {
    return;
  }
  notes.wake = true;
  notes.discover = notes.discover || discover;
}

}  // namespace outbox::pg
