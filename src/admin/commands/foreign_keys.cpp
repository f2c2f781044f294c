#include "admin/commands/foreign_keys.h"

#include "admin/commands/own_relations.h"
#include "admin/guard/loss.h"
#include "pg/guard.h"
#include "pg/transaction.h"

extern "C" {
#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_constraint.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"
}

namespace outbox::admin {

namespace {

using pg::Guard;

// What the constraint, made just now, refers to; InvalidOid: it is no foreign key, or a partition's part of one. Plain.
Oid TableReferredTo(Oid constraint) {
  Relation constraints = table_open(ConstraintRelationId, AccessShareLock);
  ScanKeyData key;
  ScanKeyInit(&key, Anum_pg_constraint_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(constraint));
  SysScanDesc scan = systable_beginscan(constraints, ConstraintOidIndexId, true, SnapshotSelf, 1, &key);
  HeapTuple tuple = systable_getnext(scan);
  Oid table = InvalidOid;
  if (HeapTupleIsValid(tuple)) {
    const auto* form = reinterpret_cast<Form_pg_constraint>(GETSTRUCT(tuple));
    const bool whole = form->contype == CONSTRAINT_FOREIGN && !OidIsValid(form->conparentid);
    table = whole ? form->confrelid : InvalidOid;
  }
  systable_endscan(scan);
  table_close(constraints, AccessShareLock);
  return table;
}

}  // namespace

void CheckMadeConstraint(const ObjectAccess& access) {
  const Oid table = Guard([&access] { return TableReferredTo(access.object); });
  if (!Guard([table] { return IsOwnTable(table) && !pg::InOwnStatement(); })) {
    return;
  }
  RefuseByHand("create a foreign key onto " + NameOf(table),
               "Background workers delete and change its rows: one that something else refers to would hold them up, "
               "and what they have sent would be sent again.",
               "Keep the value without a foreign key, an event's id for example: outbox.status() knows it.");
}

}  // namespace outbox::admin
