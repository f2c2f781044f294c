#include "admin/commands/view_locks.h"

#include "admin/commands/own_relations.h"
#include "admin/guard/loss.h"
#include "pg/guard.h"

extern "C" {
#include "access/genam.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_rewrite.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/fmgroids.h"
}

namespace outbox::admin {

namespace {

using pg::Guard;
using pg::UserError;

// The view, and the views behind it: LOCK TABLE goes down through them, with the rights of their owners. Plain, and by
// catalog snapshots: the transaction's own is not to be taken before the lock.
void CollectViews(Oid view, List** views) {
  check_stack_depth();
  if (get_rel_relkind(view) != RELKIND_VIEW || list_member_oid(*views, view)) {
    return;
  }
  *views = lappend_oid(*views, view);
  List* rules = NIL;
  ScanKeyData keys[2];
  ScanKeyInit(&keys[0], Anum_pg_rewrite_ev_class, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(view));
  Relation catalog = table_open(RewriteRelationId, AccessShareLock);
  SysScanDesc scan = systable_beginscan(catalog, RewriteRelRulenameIndexId, true, nullptr, 1, keys);
  for (HeapTuple row = systable_getnext(scan); row != nullptr; row = systable_getnext(scan)) {
    rules = lappend_oid(rules, reinterpret_cast<Form_pg_rewrite>(GETSTRUCT(row))->oid);
  }
  systable_endscan(scan);
  table_close(catalog, AccessShareLock);
  List* used = NIL;
  catalog = table_open(DependRelationId, AccessShareLock);
  for (int i = 0; i < list_length(rules); i++) {
    ScanKeyInit(&keys[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(RewriteRelationId));
    ScanKeyInit(&keys[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ,
                ObjectIdGetDatum(list_nth_oid(rules, i)));
    scan = systable_beginscan(catalog, DependDependerIndexId, true, nullptr, 2, keys);
    for (HeapTuple row = systable_getnext(scan); row != nullptr; row = systable_getnext(scan)) {
      const auto* depends = reinterpret_cast<Form_pg_depend>(GETSTRUCT(row));
      used = depends->refclassid == RelationRelationId ? list_append_unique_oid(used, depends->refobjid) : used;
    }
    systable_endscan(scan);
  }
  table_close(catalog, AccessShareLock);
  for (int i = 0; i < list_length(used); i++) {
    CollectViews(list_nth_oid(used, i), views);
  }
}

// A view of outbox that is not the caller's, among those that would be locked.
Oid ViewOfOthers(Oid locked) {
  List* views = NIL;
  CollectViews(locked, &views);
  for (int i = 0; i < list_length(views); i++) {
    const Oid view = list_nth_oid(views, i);
    if (IsOwnView(view) && !OwnsRelation(view)) {
      return view;
    }
  }
  return InvalidOid;
}

}  // namespace

bool LocksView(Node* statement) {
  const auto* lock = reinterpret_cast<LockStmt*>(statement);
  if (lock->mode <= RowExclusiveLock) {
    return false;
  }
  for (int i = 0; i < list_length(lock->relations); i++) {
    const Oid found = RangeVarGetRelid(static_cast<RangeVar*>(list_nth(lock->relations, i)), NoLock, true);
    if (OidIsValid(found) && get_rel_relkind(found) == RELKIND_VIEW) {
      return true;
    }
  }
  return false;
}

// UPDATE and DELETE of outbox.event are granted for the sake of the answer, and are a right to every lock on the view:
// whoever may emit could hold up all who emit through it.
void CheckLock(Node* statement) {
  const auto* lock = reinterpret_cast<LockStmt*>(statement);
  for (int i = 0; i < list_length(lock->relations); i++) {
    const Oid found = FindRelation(static_cast<RangeVar*>(list_nth(lock->relations, i)));
    const Oid view = OidIsValid(found) ? Guard([found] { return ViewOfOthers(found); }) : InvalidOid;
    if (OidIsValid(view)) {
      throw UserError{ERRCODE_INSUFFICIENT_PRIVILEGE, "cannot lock view " + NameOf(view) + " in this mode",
                      "All who emit through it would wait until the lock is gone.",
                      "ROW EXCLUSIVE is the strongest mode for who may emit. To have one at a time, lock a table or "
                      "a row of the application, or take pg_advisory_xact_lock()."};
    }
  }
}

}  // namespace outbox::admin
