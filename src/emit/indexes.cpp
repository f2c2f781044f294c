#include "emit/indexes.h"

#include "days/columns.h"
#include "days/day_table.h"
#include "pg/held_lock.h"

extern "C" {
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "executor/executor.h"
}

namespace outbox::emit {

using enum days::LogColumn;

namespace {

void PutIntoIndex(Relation day_table, Relation index, IndexInfo* info, HeapTuple row, Datum* values, bool* nulls) {
  index_insert(index, values, nulls, &row->t_self, day_table,
               index->rd_index->indisunique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO, false, info);
}

// Expressions, predicates and columns that are not the extension's need an executor; only indexes made by users have
// any.
void ExecuteIntoIndex(Relation day_table, Relation index, IndexInfo* info, HeapTuple row) {
  Datum values[INDEX_MAX_KEYS];
  bool nulls[INDEX_MAX_KEYS];
  EState* executor = CreateExecutorState();
  TupleTableSlot* slot = MakeSingleTupleTableSlot(RelationGetDescr(day_table), &TTSOpsHeapTuple);
  ExecStoreHeapTuple(row, slot, false);
  GetPerTupleExprContext(executor)->ecxt_scantuple = slot;
  if (info->ii_Predicate == NIL ||
      ExecQual(ExecPrepareQual(info->ii_Predicate, executor), GetPerTupleExprContext(executor))) {
    FormIndexDatum(info, slot, executor, values, nulls);
    PutIntoIndex(day_table, index, info, row, values, nulls);
  }
  ExecDropSingleTupleTableSlot(slot);
  FreeExecutorState(executor);
  info->ii_ExpressionsState = NIL;  // which FormIndexDatum has made in the executor's memory
}

bool OnColumnsOfLog(const IndexInfo* info) {
  bool simple = info->ii_Expressions == NIL && info->ii_Predicate == NIL;
  for (int i = 0; i < info->ii_NumIndexAttrs; i++) {
    simple = simple && info->ii_IndexAttrNumbers[i] <= kLogColumns;
  }
  return simple;
}

void InsertIntoIndex(Relation day_table, Relation index, IndexInfo* info, HeapTuple row, const Datum* values,
                     const bool* nulls) {
  if (!OnColumnsOfLog(info)) {
    ExecuteIntoIndex(day_table, index, info, row);
    return;
  }
  Datum index_values[INDEX_MAX_KEYS];
  bool index_nulls[INDEX_MAX_KEYS];
  for (int i = 0; i < info->ii_NumIndexAttrs; i++) {
    int column = info->ii_IndexAttrNumbers[i] - 1;
    index_values[i] = values[column];
    index_nulls[i] = nulls[column];
  }
  PutIntoIndex(day_table, index, info, row, index_values, index_nulls);
}

[[noreturn]] void RefuseIndex(Relation day_table, const char* detail) {
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("day table \"%s\" cannot take events", RelationGetRelationName(day_table)),
                  errdetail("%s", detail), errhint("The owner of the extension drops what does not belong to it.")));
  pg_unreachable();
}

// The indexes of the table that was last emitted to. Only where there is nothing but ready btrees on columns of the
// log, which leave nothing behind in an IndexInfo: copies of one serve all transactions.
struct {
  Oid table;  // InvalidOid: nothing remembered
  uint64 changes;
  int count;
  Oid index[kMaxIndexes];
  IndexInfo info[kMaxIndexes];
  pg::HeldLock lock;  // of all of them
} remembered;

bool MayRemember(Relation index, const IndexInfo* info) {
  return index->rd_rel->relam == BTREE_AM_OID && OnColumnsOfLog(info);
}

void Remember(Relation day_table, uint64 changes, const Indexes* indexes) {
  for (int i = 0; i < indexes->count; i++) {
    remembered.index[i] = RelationGetRelid(indexes->relation[i]);
    remembered.info[i] = indexes->info[i];
  }
  remembered.count = indexes->count;
  remembered.changes = changes;
  remembered.table = RelationGetRelid(day_table);
  pg::NoteHeld(&remembered.lock);
}

bool IsRemembered(Relation day_table) {
  return remembered.table == RelationGetRelid(day_table) &&
         remembered.changes == days::EmitTableChanges(remembered.table);
}

// The table is locked: what could drop an index, or make one that has to be filled, waits for that or was seen.
bool OpenRemembered(Relation day_table, Indexes* indexes) {
  indexes->count = 0;
  if (!IsRemembered(day_table)) {
    return false;
  }
  const bool held = pg::Holds(remembered.lock);
  for (int i = 0; i < remembered.count; i++) {
    const Oid id = remembered.index[i];
    Relation index = held ? pg::OpenHeld(id) : pg::LockAndOpen(id, RowExclusiveLock);
    if (index == nullptr) {
      remembered.table = InvalidOid;
      break;
    }
    indexes->relation[i] = index;
    indexes->info[i] = remembered.info[i];
    indexes->info[i].ii_Context = CurrentMemoryContext;
    indexes->count++;
  }
  if (!IsRemembered(day_table)) {  // locking reads what has changed meanwhile
    CloseIndexes(indexes);
    return false;
  }
  pg::NoteHeld(&remembered.lock);
  return true;
}

}  // namespace

void OpenIndexes(Relation day_table, Indexes* indexes) {
  if (OpenRemembered(day_table, indexes)) {
    return;
  }
  const uint64 changes = days::EmitTableChanges(RelationGetRelid(day_table));
  bool may_remember = changes != 0;
  remembered.table = InvalidOid;
  indexes->count = 0;
  List* list = RelationGetIndexList(day_table);
  ListCell* cell;
  foreach (cell, list) {
    Relation index = index_open(lfirst_oid(cell), RowExclusiveLock);
    if (!index->rd_index->indisready) {
      index_close(index, NoLock);
      may_remember = false;
      continue;
    }
    if (index->rd_index->indisexclusion || !index->rd_index->indimmediate) {
      RefuseIndex(day_table, psprintf("Its index \"%s\" belongs to an exclusion or deferrable constraint.",
                                      RelationGetRelationName(index)));
    }
    if (indexes->count == kMaxIndexes) {
      RefuseIndex(day_table, "It has too many indexes.");
    }
    IndexInfo* info = BuildIndexInfo(index);
    indexes->relation[indexes->count] = index;
    indexes->info[indexes->count] = *info;
    indexes->count++;
    may_remember = may_remember && MayRemember(index, info);
    pfree(info);
  }
  list_free(list);
  if (may_remember) {
    Remember(day_table, changes, indexes);
  }
}

void InsertIntoIndexes(Relation day_table, Indexes* indexes, HeapTuple row, const Datum* values, const bool* nulls) {
  for (int i = 0; i < indexes->count; i++) {
    InsertIntoIndex(day_table, indexes->relation[i], &indexes->info[i], row, values, nulls);
  }
}

void CloseIndexes(Indexes* indexes) {
  for (int i = 0; i < indexes->count; i++) {
#if PG_VERSION_NUM >= 170000
    index_insert_cleanup(indexes->relation[i], &indexes->info[i]);
#endif
    index_close(indexes->relation[i], NoLock);
  }
  indexes->count = 0;
}

}  // namespace outbox::emit
