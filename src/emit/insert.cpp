#include "emit/insert.h"

#include "base/fault_point.h"
#include "days/day_table.h"
#include "days/day_table_ddl.h"
#include "emit/check.h"
#include "emit/copy.h"
#include "emit/event_id.h"
#include "emit/own_events.h"
#include "pg/clock.h"
#include "pg/transaction_end.h"

extern "C" {
#include "catalog/index.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"
}

namespace outbox::emit {

using enum days::LogColumn;

namespace {

void SetColumn(Datum* values, bool* nulls, int column, const void* value) {
  nulls[column] = value == nullptr;
  values[column] = PointerGetDatum(value);
}

// It ends with our columns: what somebody has added behind them reads as in a row that is older.
HeapTuple FormLogRow(TupleDesc columns, const NewEvent* event, FullTransactionId xid, Datum* values, bool* nulls) {
  memset(nulls, 0, kLogColumns);
  values[kCreatedAt] = TimestampTzGetDatum(event->created_at - kPgEpochMicros);
  values[kId] = UUIDPGetDatum(&event->id);
  values[kXid] = FullTransactionIdGetDatum(xid);
  SetColumn(values, nulls, kAggregateType, event->aggregate_type);
  SetColumn(values, nulls, kAggregateId, event->aggregate_id);
  SetColumn(values, nulls, kEventType, event->event_type);
  SetColumn(values, nulls, kPayload, event->payload);
  SetColumn(values, nulls, kContentType, event->content_type);
  SetColumn(values, nulls, kHeaders, event->headers);
  SetColumn(values, nulls, kTopic, event->topic);
  values[kDeliverAt] = TimestampTzGetDatum(event->deliver_at);
  nulls[kDeliverAt] = !event->delayed;
  return heap_form_tuple(columns, values, nulls);
}

void Stamp(NewEvent* event, int64 reading) {
  event->created_at = reading;
  if (event->own_id != nullptr) {
    event->id = *event->own_id;
  } else {
    MakeEventId(reading, &event->id);
  }
}

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
}

void InsertIntoIndex(Relation day_table, Relation index, IndexInfo* info, HeapTuple row, Datum* values, bool* nulls) {
  bool simple = info->ii_Expressions == NIL && info->ii_Predicate == NIL;
  for (int i = 0; i < info->ii_NumIndexAttrs; i++) {
    simple = simple && info->ii_IndexAttrNumbers[i] <= kLogColumns;
  }
  if (!simple) {
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

constexpr int kMaxIndexes = 16;

struct Indexes {
  int count;
  Relation relation[kMaxIndexes];
  IndexInfo* info[kMaxIndexes];
};

[[noreturn]] void RefuseIndex(Relation day_table, const char* detail) {
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("day table \"%s\" cannot take events", RelationGetRelationName(day_table)),
                  errdetail("%s", detail), errhint("Drop what does not belong to the extension.")));
  pg_unreachable();
}

// Opens every index that is ready, not only the extension's: during REINDEX CONCURRENTLY there are two for a while, and
// a row that is missing in one of them is lost to the reader.
void OpenIndexes(Relation day_table, Indexes* indexes) {
  indexes->count = 0;
  List* list = RelationGetIndexList(day_table);
  ListCell* cell;
  foreach (cell, list) {
    Relation index = index_open(lfirst_oid(cell), RowExclusiveLock);
    if (!index->rd_index->indisready) {
      index_close(index, NoLock);
      continue;
    }
    if (index->rd_index->indisexclusion || !index->rd_index->indimmediate) {
      RefuseIndex(day_table, psprintf("Its index \"%s\" belongs to an exclusion or deferrable constraint.",
                                      RelationGetRelationName(index)));
    }
    if (indexes->count == kMaxIndexes) {
      RefuseIndex(day_table, "It has too many indexes.");
    }
    indexes->relation[indexes->count] = index;
    indexes->info[indexes->count] = BuildIndexInfo(index);
    indexes->count++;
  }
  list_free(list);
}

void InsertIntoIndexes(Relation day_table, const Indexes* indexes, HeapTuple row, Datum* values, bool* nulls) {
  for (int i = 0; i < indexes->count; i++) {
    InsertIntoIndex(day_table, indexes->relation[i], indexes->info[i], row, values, nulls);
  }
}

void CloseIndexes(const Indexes* indexes) {
  for (int i = 0; i < indexes->count; i++) {
#if PG_VERSION_NUM >= 170000
    index_insert_cleanup(indexes->relation[i], indexes->info[i]);
#endif
    pfree(indexes->info[i]);
    index_close(indexes->relation[i], NoLock);
  }
}

// Inserts rows of one day.
void InsertRows(int32 day, NewEvent* events, int count, FullTransactionId xid) {
  Relation day_table = days::OpenDayTableForEmit(day);
  TupleDesc columns = days::FirstColumns(RelationGetDescr(day_table), kLogColumns);
  TupleTableSlot** slots = static_cast<TupleTableSlot**>(palloc(count * sizeof(TupleTableSlot*)));
  HeapTuple* rows = static_cast<HeapTuple*>(palloc(count * sizeof(HeapTuple)));
  Datum values[kLogColumns];
  bool nulls[kLogColumns];
  for (int i = 0; i < count; i++) {
    slots[i] = MakeSingleTupleTableSlot(RelationGetDescr(day_table), &TTSOpsHeapTuple);
    rows[i] = FormLogRow(columns, &events[i], xid, values, nulls);
    ExecStoreHeapTuple(rows[i], slots[i], false);
  }
  heap_multi_insert(day_table, slots, count, GetCurrentCommandId(true), 0, nullptr);
  Indexes indexes;
  OpenIndexes(day_table, &indexes);
  for (int i = 0; i < count; i++) {
    heap_deform_tuple(rows[i], columns, values, nulls);
    rows[i]->t_self = slots[i]->tts_tid;
    InsertIntoIndexes(day_table, &indexes, rows[i], values, nulls);
    NoteOwnEvent(day_table, &events[i].id, &rows[i]->t_self);
    ExecDropSingleTupleTableSlot(slots[i]);
  }
  CloseIndexes(&indexes);
  table_close(day_table, NoLock);
  pg::NoteEmitted(day);
}

// Inserts rows day by day.
void InsertByDay(NewEvent* events, int count, FullTransactionId xid) {
  for (int done = 0; done < count;) {
    int32 day = days::DayOfMicros(events[done].created_at);
    int rows = 1;
    while (done + rows < count && days::DayOfMicros(events[done + rows].created_at) == day) {
      rows++;
    }
    InsertRows(day, events + done, rows, xid);
    done += rows;
  }
}

}  // namespace

void InsertEvent(NewEvent* event) {
  CheckMayEmit();
  WarnInCopy();
  // The xid comes before the reading: days/log_table_list relies on it to know when no transaction can write into a
  // past day.
  FullTransactionId xid = GetTopFullTransactionId();
  Stamp(event, pg::TakeReadings(1));
  OUTBOX_FAULT_POINT("emit.reading");
  int32 day = days::DayOfMicros(event->created_at);
  Relation day_table = days::OpenDayTableForEmit(day);

  Datum values[kLogColumns];
  bool nulls[kLogColumns];
  HeapTuple row = FormLogRow(days::FirstColumns(RelationGetDescr(day_table), kLogColumns), event, xid, values, nulls);
  heap_insert(day_table, row, GetCurrentCommandId(true), 0, nullptr);
  OUTBOX_FAULT_POINT("emit.heap_only");
  Indexes indexes;
  OpenIndexes(day_table, &indexes);
  InsertIntoIndexes(day_table, &indexes, row, values, nulls);
  CloseIndexes(&indexes);
  NoteOwnEvent(day_table, &event->id, &row->t_self);
  heap_freetuple(row);
  // The lock stays until the transaction ends.
  table_close(day_table, NoLock);
  pg::NoteEmitted(day);
  OUTBOX_FAULT_POINT("emit.inserted");
}

void InsertEvents(NewEvent* events, int count) {
  CheckMayEmit();
  if (count == 0) {
    return;
  }
  WarnInCopy();
  FullTransactionId xid = GetTopFullTransactionId();
  int64 reading = pg::TakeReadings(count);
  OUTBOX_FAULT_POINT("emit.many.reading");
  for (int i = 0; i < count; i++) {
    Stamp(&events[i], reading + i);
  }
  InsertByDay(events, count, xid);
}

void InsertAdopted(NewEvent* events, int count, uint64 xid) {
  CheckMayEmit();
  (void)GetTopFullTransactionId();
  for (int i = 0; i < count; i++) {
    events[i].id = *events[i].own_id;
  }
  InsertByDay(events, count, FullTransactionIdFromU64(xid));
}

}  // namespace outbox::emit
