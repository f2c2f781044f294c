#include "admin/changes.h"

#include "pg/shared.h"
#include "worker/worker_slot.h"

namespace outbox::admin {

namespace {

bool config_changed = false;
bool parked_changed = false;

// After commit nothing may raise. FindDatabaseSlot takes a light-weight lock, which does not.
void Publish(bool config) {
  pg::DatabaseSlot* slot = pg::FindDatabaseSlot(MyDatabaseId, config);
  if (slot == nullptr) {
    return;
  }
  if (config) {
    pg_atomic_fetch_add_u64(&slot->config_generation, 1);
  }
  if (parked_changed) {
    pg_atomic_fetch_add_u64(&slot->parked_generation, 1);
  }
  pg::WakeWorkers(MyDatabaseId, true);
  if (config && !slot->active) {
    worker::RequestProbe(MyDatabaseId);
  }
}

void AtTransactionEvent(XactEvent event, void*) {
  if (!config_changed && !parked_changed) {
    return;
  }
  switch (event) {
    case XACT_EVENT_PRE_PREPARE:
      ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                      errmsg("cannot prepare a transaction that changed routes or parked events of outbox"),
                      errdetail("The workers are told of the change when the transaction commits."),
                      errhint("Use COMMIT instead of PREPARE TRANSACTION.")));
      break;
    case XACT_EVENT_COMMIT:
      Publish(config_changed);
      config_changed = parked_changed = false;
      break;
    case XACT_EVENT_ABORT:
      if (parked_changed) {
        Publish(false);
      }
      config_changed = parked_changed = false;
      break;
    case XACT_EVENT_PARALLEL_ABORT:
    case XACT_EVENT_PREPARE:
      config_changed = parked_changed = false;
      break;
    default:
      break;
  }
}

}  // namespace

void RegisterChangeCallback() {
  RegisterXactCallback(AtTransactionEvent, nullptr);
}

void NoteConfigChange() {
  config_changed = true;
}

void NoteParkedChange() {
  parked_changed = true;
}

}  // namespace outbox::admin
