#include "admin/guard/cascade.h"

#include "pg/guard.h"
#include "pg/schemas.h"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
}

namespace outbox::admin {

namespace {

// Foreign keys of outbox refer to primary keys. As the row is now, what this very command has done included. Plain.
bool ParentIsGone(const TriggerData* trigger, const ForeignKeyCacheInfo* foreign) {
  TupleDesc columns = RelationGetDescr(trigger->tg_relation);
  ScanKeyData keys[INDEX_MAX_KEYS];
  for (int i = 0; i < foreign->nkeys; i++) {
    bool null = true;
    const Datum value = heap_getattr(trigger->tg_trigtuple, foreign->conkey[i], columns, &null);
    if (null) {
      return false;  // it refers to none
    }
    ScanKeyInit(&keys[i], foreign->confkey[i], BTEqualStrategyNumber, get_opcode(foreign->conpfeqop[i]), value);
  }
  Relation parent = table_open(foreign->confrelid, AccessShareLock);
  list_free(RelationGetIndexList(parent));
  const Oid index = parent->rd_pkindex;  // which that has looked for
  SysScanDesc scan = systable_beginscan(parent, index, OidIsValid(index), SnapshotSelf, foreign->nkeys, keys);
  const bool gone = !HeapTupleIsValid(systable_getnext(scan));
  systable_endscan(scan);
  table_close(parent, AccessShareLock);
  return gone;
}

// Plain.
bool Goes(const TriggerData* trigger) {
  if (!InNoForceRLSOperation() || !TRIGGER_FIRED_BY_DELETE(trigger->tg_event)) {
    return false;
  }
  const bool row = TRIGGER_FIRED_FOR_ROW(trigger->tg_event) != 0;
  const List* foreign_keys = static_cast<List*>(copyObjectImpl(RelationGetFKeyList(trigger->tg_relation)));
  for (int i = 0; i < list_length(foreign_keys); i++) {
    const auto* foreign = static_cast<const ForeignKeyCacheInfo*>(list_nth(foreign_keys, i));
    if (pg::IsOurSchema(get_rel_namespace(foreign->confrelid)) && (!row || ParentIsGone(trigger, foreign))) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool GoesWithParent(const TriggerData* trigger) {
  return pg::Guard([trigger] { return Goes(trigger); });
}

}  // namespace outbox::admin
