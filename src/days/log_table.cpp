#include "days/log_table.h"

#include <utility>

#include "days/day_table_ddl.h"
#include "days/table_check.h"

extern "C" {
#include "access/relscan.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "storage/bufmgr.h"
#include "utils/typcache.h"
}

namespace outbox::days {

namespace {

void CheckColumns(Relation heap) {
  const char* wrong = WrongForReading(heap, kLogRules, kLogColumns);
  if (wrong != nullptr) {
    const bool partition = RelationGetRelid(heap) != SpareTable();
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("table \"%s\" is not a day table of outbox_internal.log", RelationGetRelationName(heap)),
                    errdetail("%s", wrong),
                    partition ? errhint("Detach it from outbox_internal.log, or undo what was altered.")
                              : errhint("It belongs to the extension, whose owner undoes what was altered; of its "
                                        "access method: SET outbox.allow_loss = on; ALTER TABLE "
                                        "outbox_internal.log_spare SET ACCESS METHOD heap.")));
  }
}

bool IsXidIndex(Relation index) {
  Form_pg_index form = index->rd_index;
  return form->indisvalid && form->indisready && form->indislive && index->rd_rel->relam == BTREE_AM_OID &&
         form->indnatts == 1 && form->indkey.values[0] == kXid + 1 &&
         heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, nullptr) &&
         (index->rd_indoption[0] & INDOPTION_DESC) == 0 &&
         index->rd_opfamily[0] == lookup_type_cache(XID8OID, TYPECACHE_BTREE_OPFAMILY)->btree_opf;
}

// Whether the index has the name that day_table_ddl gives it.
bool IsOurs(Relation day_table, Relation index) {
  char* name = psprintf("%s_xid", RelationGetRelationName(day_table));
  bool same = strcmp(RelationGetRelationName(index), name) == 0;
  pfree(name);
  return same;
}

}  // namespace

bool OpenLogTable(Oid oid, LogTable* log_table) {
  log_table->heap = try_relation_open(oid, AccessShareLock);
  log_table->index = nullptr;
  if (log_table->heap == nullptr) {
    return false;
  }
  CheckColumns(log_table->heap);
  log_table->index = OpenXidIndex(log_table->heap);
  return true;
}

Relation OpenXidIndex(Relation day_table) {
  Relation found = nullptr;
  List* indexes = RelationGetIndexList(day_table);
  ListCell* cell = nullptr;
  foreach (cell, indexes) {
    Relation index = index_open(lfirst_oid(cell), AccessShareLock);
    if (IsXidIndex(index) && (found == nullptr || IsOurs(day_table, index))) {
      std::swap(found, index);
    }
    if (index != nullptr) {
      index_close(index, AccessShareLock);
    }
  }
  list_free(indexes);
  return found;
}

void CloseLogTable(const LogTable& log_table) {
  if (log_table.index != nullptr) {
    index_close(log_table.index, NoLock);
  }
  table_close(log_table.heap, NoLock);
}

IndexScanDesc BeginXidScan(const LogTable& log_table, int keys) {
  // SnapshotAny: the scan hands out every entry, and takes no predicate lock; the window decides what counts.
#if PG_VERSION_NUM >= 190000
  IndexScanDesc scan = index_beginscan(log_table.heap, log_table.index, SnapshotAny, nullptr, keys, 0, SO_NONE);
#elif PG_VERSION_NUM >= 180000
  IndexScanDesc scan = index_beginscan(log_table.heap, log_table.index, SnapshotAny, nullptr, keys, 0);
#else
  IndexScanDesc scan = index_beginscan(log_table.heap, log_table.index, SnapshotAny, keys, 0);
#endif
  scan->xs_want_itup = true;
  return scan;
}

namespace {

bool EndOfIndex(const LogTable& log_table, ScanDirection from, uint64* xid) {
  if (log_table.index == nullptr) {
    return false;
  }
  IndexScanDesc scan = BeginXidScan(log_table, 0);
  index_rescan(scan, nullptr, 0, nullptr, 0);
  bool found = index_getnext_tid(scan, from) != nullptr;
  if (found) {
    bool isnull = false;
    *xid = DatumGetUInt64(index_getattr(scan->xs_itup, 1, scan->xs_itupdesc, &isnull));
  }
  index_endscan(scan);
  return found;
}

}  // namespace

bool LargestXid(const LogTable& log_table, uint64* xid) {
  return EndOfIndex(log_table, BackwardScanDirection, xid);
}

bool LeastXid(const LogTable& log_table, uint64* xid) {
  return EndOfIndex(log_table, ForwardScanDirection, xid);
}

}  // namespace outbox::days
