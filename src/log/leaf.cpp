#include "log/leaf.h"

extern "C" {
#include "access/relscan.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "storage/bufmgr.h"
}

namespace outbox::log {

namespace {

constexpr Oid kColumnTypes[kLogColumns] = {TIMESTAMPTZOID, UUIDOID, XID8OID,  TEXTOID, TEXTOID,       TEXTOID,
                                           BYTEAOID,       TEXTOID, JSONBOID, TEXTOID, TIMESTAMPTZOID};

void CheckColumns(Relation heap) {
  TupleDesc columns = RelationGetDescr(heap);
  bool good = columns->natts == kLogColumns && heap->rd_rel->relkind == RELKIND_RELATION &&
              heap->rd_tableam == GetHeapamTableAmRoutine();
  for (int i = 0; good && i < kLogColumns; i++) {
    Form_pg_attribute column = TupleDescAttr(columns, i);
    good = !column->attisdropped && column->atttypid == kColumnTypes[i];
  }
  if (!good) {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("table \"%s\" is not a day table of outbox.log", RelationGetRelationName(heap)),
                    errdetail("Its columns, or the way it is stored, are not those of the log."),
                    errhint("Detach it from outbox.log, or undo what was altered.")));
  }
}

bool IsXidIndex(Relation index) {
  Form_pg_index form = index->rd_index;
  return form->indisvalid && index->rd_rel->relam == BTREE_AM_OID && form->indkey.values[0] == kXid + 1 &&
         heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, nullptr) &&
         (index->rd_indoption[0] & INDOPTION_DESC) == 0;
}

}  // namespace

bool OpenLeaf(Oid oid, Leaf* leaf) {
  leaf->heap = try_relation_open(oid, AccessShareLock);
  leaf->index = nullptr;
  if (leaf->heap == nullptr) {
    return false;
  }
  CheckColumns(leaf->heap);
  List* indexes = RelationGetIndexList(leaf->heap);
  ListCell* cell = nullptr;
  foreach (cell, indexes) {
    Relation index = index_open(lfirst_oid(cell), AccessShareLock);
    if (leaf->index == nullptr && IsXidIndex(index)) {
      leaf->index = index;
    } else {
      index_close(index, AccessShareLock);
    }
  }
  list_free(indexes);
  return true;
}

void CloseLeaf(const Leaf& leaf) {
  if (leaf.index != nullptr) {
    index_close(leaf.index, NoLock);
  }
  table_close(leaf.heap, NoLock);
}

IndexScanDesc BeginXidScan(const Leaf& leaf, int keys) {
  // SnapshotAny: the scan hands out every entry, and takes no predicate lock; the window decides what counts.
#if PG_VERSION_NUM >= 190000
  IndexScanDesc scan = index_beginscan(leaf.heap, leaf.index, SnapshotAny, nullptr, keys, 0, SO_NONE);
#elif PG_VERSION_NUM >= 180000
  IndexScanDesc scan = index_beginscan(leaf.heap, leaf.index, SnapshotAny, nullptr, keys, 0);
#else
  IndexScanDesc scan = index_beginscan(leaf.heap, leaf.index, SnapshotAny, keys, 0);
#endif
  scan->xs_want_itup = true;
  return scan;
}

bool LargestXid(const Leaf& leaf, uint64* xid) {
  if (leaf.index == nullptr) {
    return false;
  }
  IndexScanDesc scan = BeginXidScan(leaf, 0);
  index_rescan(scan, nullptr, 0, nullptr, 0);
  bool found = index_getnext_tid(scan, BackwardScanDirection) != nullptr;
  if (found) {
    bool isnull = false;
    *xid = DatumGetUInt64(index_getattr(scan->xs_itup, 1, scan->xs_itupdesc, &isnull));
  }
  index_endscan(scan);
  return found;
}

}  // namespace outbox::log
