#include "pg/cached_table.h"

#include "pg/entry.h"
#include "pg/schemas.h"
#include "pg/server_versions.h"

extern "C" {
#include "commands/trigger.h"
#include "storage/lmgr.h"
#include "utils/array.h"
}

namespace outbox::pg {

List* TextsOf(Datum array) {
  Datum* values = nullptr;
  bool* nulls = nullptr;
  int count = 0;
  List* texts = NIL;
  deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls, &count);
  for (int i = 0; i < count; i++) {
    if (!nulls[i]) {
      texts = lappend(texts, TextDatumGetCString(values[i]));
    }
  }
  return texts;
}

CachedTable* CachedTable::watched = nullptr;

void CachedTable::OnRelationChange(Datum, Oid relation) {
  for (CachedTable* table = watched; table != nullptr; table = table->next_) {
    if (relation == InvalidOid || relation == table->table_ || !OidIsValid(table->table_)) {
      table->changes_++;
    }
  }
}

void CachedTable::Hear() {
  AcceptInvalidationMessages();
}

// One callback for all of them: a session has room for ten, of all extensions together.
void CachedTable::Watch() {
  if (watching_) {
    return;
  }
  if (watched == nullptr) {
    CacheRegisterRelcacheCallback(OnRelationChange, static_cast<Datum>(0));
  }
  next_ = watched;
  watched = this;
  watching_ = true;
}

void CachedTable::Read() {
  Watch();
  Oid found = FindOurRelation(name_);
  while (OidIsValid(found)) {
    if (if_locked_ == IfLocked::kWait) {
      LockRelationOid(found, AccessShareLock);
    } else if (!ConditionalLockRelationOid(found, AccessShareLock)) {
      return;
    }
    // With the lock the session has heard of all that was done: of an extension that was dropped and made anew, too.
    const Oid now = FindOurRelation(name_);
    if (now == found) {
      break;
    }
    UnlockRelationOid(found, AccessShareLock);
    found = now;
  }
  table_ = found;
  const uint64 changes = changes_;  // a change from here on has it read again
  Relation relation = OidIsValid(found) ? try_table_open(found, NoLock) : nullptr;
  // The caller's until all is read.
  MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "outbox cached table", ALLOCSET_SMALL_SIZES);
  MemoryContextSetIdentifier(memory, name_);
  List* rows = NIL;
  Oid owner = InvalidOid;
  if (relation != nullptr) {
    owner = relation->rd_rel->relowner;
    MemoryContext caller = MemoryContextSwitchTo(memory);
    ::Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    TableScanDesc scan = BeginScan(relation, snapshot);
    TupleTableSlot* slot = table_slot_create(relation, nullptr);
    while (table_scan_getnextslot(scan, ForwardScanDirection, slot)) {
      void* kept = keep_(slot);
      if (kept != nullptr) {
        rows = lappend(rows, kept);
      }
    }
    ExecDropSingleTupleTableSlot(slot);
    table_endscan(scan);
    UnregisterSnapshot(snapshot);
    MemoryContextSwitchTo(caller);
    table_close(relation, NoLock);
  }
  if (OidIsValid(found)) {
    UnlockRelationOid(found, AccessShareLock);
  }
  MemoryContextSetParent(memory, TopMemoryContext);
  if (memory_ != nullptr) {
    MemoryContextDelete(memory_);
  }
  memory_ = memory;
  rows_ = rows;
  owner_ = owner;
  changes_read_ = changes;
  times_read_++;
}

}  // namespace outbox::pg

// After each change of a table that sessions remember: all of them read it again.
OUTBOX_FUNCTION(outbox_read_again) {
  static constexpr outbox::pg::TriggerUse kUse = {
      "outbox_internal.read_again()",
      [](const TriggerData& trigger) { return TRIGGER_FIRED_AFTER(trigger.tg_event) != 0; }, "an AFTER trigger"};
  const Oid changed = RelationGetRelid(outbox::pg::TriggerOf(fcinfo, kUse)->tg_relation);
  outbox::pg::Guard([changed] { CacheInvalidateRelcacheByRelid(changed); });
  return Datum{0};
}
