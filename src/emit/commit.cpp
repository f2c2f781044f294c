#include "emit/commit.h"

#include "base/fault_point.h"
#include "emit/own_events.h"

namespace outbox::emit {

namespace {

pg::DatabaseSlot* my_slot = nullptr;
bool emitted = false;
bool emitted_to_spare = false;
int32 first_day = 0;
int32 last_day = 0;

// Runs after the transaction has become visible, with interrupts held. It must not raise or allocate: an error here
// takes the whole server down (the transaction can no longer be aborted).
void OnTransactionEnd(XactEvent event, void*) {
  switch (event) {
    case XACT_EVENT_COMMIT:
      if (emitted && my_slot != nullptr) {
        OUTBOX_FAULT_POINT("emit.committed");
        pg_atomic_fetch_add_u64(&my_slot->emitting_commits, 1);
        pg::WakeWorkers(MyDatabaseId, false);
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
  ForgetOwnEvents();
}

}  // namespace

void RegisterTransactionCallbacks() {
  RegisterXactCallback(OnTransactionEnd, nullptr);
}

pg::DatabaseSlot* MySlot() {
  // The launcher may have freed the slot of a database that had no extension when it looked.
  if (my_slot != nullptr && my_slot->database == MyDatabaseId) {
    return my_slot;
  }
  // When all slots are taken, asking costs an exclusive lock each time and is of little use.
  static uint32 misses = 0;
  if (misses % 1024 == 0) {
    my_slot = pg::FindDatabaseSlot(MyDatabaseId, true);
  }
  misses = my_slot != nullptr && my_slot->database == MyDatabaseId ? 0 : misses + 1;
  return misses == 0 ? my_slot : nullptr;
}

void NoteEmitted(int32 day) {
  if (!emitted) {
    emitted = true;
    first_day = day;
    last_day = day;
  }
  first_day = Min(first_day, day);
  last_day = Max(last_day, day);
  // The row is in the table by now and cannot have been committed: log/leaf_list counts on both.
  if (emitted_to_spare && pg::Shared() != nullptr) {
    pg_atomic_fetch_add_u64(&pg::Shared()->spare_writes, 1);
  }
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

}  // namespace outbox::emit
