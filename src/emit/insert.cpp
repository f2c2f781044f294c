#include "emit/insert.h"

#include "base/fault_point.h"
#include "days/day_table.h"
#include "days/day_table_ddl.h"
#include "emit/check.h"
#include "emit/copy.h"
#include "emit/emitters.h"
#include "emit/event_id.h"
#include "emit/indexes.h"
#include "emit/once.h"
#include "emit/own_events.h"
#include "metrics/emitted.h"
#include "pg/clock.h"
#include "pg/server_versions.h"
#include "pg/transaction_end.h"

extern "C" {
#include "executor/executor.h"
}

namespace outbox::emit {

using enum days::LogColumn;

namespace {

void SetColumn(Datum* values, bool* nulls, int column, const void* value) {
  nulls[column] = value == nullptr;
  values[column] = PointerGetDatum(value);
}

void TakeColumns(const NewEvent* event, FullTransactionId xid, Datum* values, bool* nulls) {
  memset(nulls, 0, kLogColumns);
  values[kCreatedAt] = pg::TimeDatum(event->created_at);
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
}

// It ends with our columns: what a user has added behind them reads as in a row that is older.
TupleDesc ColumnsOf(Relation day_table) {
  return days::FirstColumns(RelationGetDescr(day_table), kLogColumns);
}

void Stamp(NewEvent* event, int64 reading) {
  NoteEmitter(OidIsValid(event->shown_to) ? event->shown_to : GetUserId(), reading);
  event->created_at = reading;
  if (event->own_id != nullptr) {
    event->id = *event->own_id;
  } else {
    MakeEventId(reading, &event->id);
  }
}

void StampAnew(NewEvent* event) {
  Stamp(event, pg::TakeReadings(1));
}

// Stamps events of which some have a key, and returns how many there are left to write, in front, in order; `written`
// gets them. The others have the id of the event that has their key.
int StampAndTakeKeys(NewEvent* events, int count, NewEvent* written, int* at) {
  int left = 0;
  for (int i = 0; i < count; i++) {
    *at = i;
    StampAnew(&events[i]);
    if (events[i].dedupe_key == nullptr || TakeKey(&events[i], StampAnew)) {
      written[left++] = events[i];
    }
  }
  *at = -1;
  return left;
}

bool AnyKey(const NewEvent* events, int count) {
  for (int i = 0; i < count; i++) {
    if (events[i].dedupe_key != nullptr) {
      return true;
    }
  }
  return false;
}

uint64 PayloadSize(const NewEvent& event) {
  return event.payload == nullptr ? 0 : Size(event.payload);
}

// Inserts rows of one day.
void InsertRows(int32 day, NewEvent* events, int count, FullTransactionId xid) {
  Relation day_table = days::OpenDayTableForEmit(day);
  // A copy is counted by no resource owner, as the table's own descriptor is, once for each slot.
  TupleDesc columns = CreateTupleDescCopy(ColumnsOf(day_table));
  TupleTableSlot** slots = static_cast<TupleTableSlot**>(palloc(count * sizeof(TupleTableSlot*)));
  Datum values[kLogColumns];
  bool nulls[kLogColumns];
  for (int i = 0; i < count; i++) {
    TakeColumns(&events[i], xid, values, nulls);
    slots[i] = pg::MakeSlot(columns, &TTSOpsHeapTuple);
    // The slot's own: it would be copied otherwise.
    ExecStoreHeapTuple(heap_form_tuple(columns, values, nulls), slots[i], true);
  }
  heap_multi_insert(day_table, slots, count, GetCurrentCommandId(true), 0, nullptr);
  Indexes indexes;
  OpenIndexes(day_table, &indexes);
  for (int i = 0; i < count; i++) {
    HeapTuple row = ExecFetchSlotHeapTuple(slots[i], false, nullptr);
    row->t_self = slots[i]->tts_tid;
    TakeColumns(&events[i], xid, values, nulls);
    InsertIntoIndexes(day_table, &indexes, row, values, nulls);
    NoteOwnEvent(day_table, &events[i].id, &row->t_self);
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
  if (event->dedupe_key != nullptr && !TakeKey(event, StampAnew)) {
    return;
  }
  int32 day = days::DayOfMicros(event->created_at);
  Relation day_table = days::OpenDayTableForEmit(day);

  Datum values[kLogColumns];
  bool nulls[kLogColumns];
  TakeColumns(event, xid, values, nulls);
  HeapTuple row = heap_form_tuple(ColumnsOf(day_table), values, nulls);
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
  pg::NoteCallerEmitted();
  metrics::NoteEmitted(1, PayloadSize(*event));
  OUTBOX_FAULT_POINT("emit.inserted");
}

void InsertEvents(NewEvent* events, int count, int* at) {
  CheckMayEmit();
  if (count == 0) {
    return;
  }
  WarnInCopy();
  FullTransactionId xid = GetTopFullTransactionId();
  if (AnyKey(events, count)) {
    NewEvent* written = static_cast<NewEvent*>(palloc(count * sizeof(NewEvent)));
    count = StampAndTakeKeys(events, count, written, at);
    events = written;
  } else {
    int64 reading = pg::TakeReadings(count);
    OUTBOX_FAULT_POINT("emit.many.reading");
    for (int i = 0; i < count; i++) {
      Stamp(&events[i], reading + i);
    }
  }
  if (count == 0) {
    return;
  }
  InsertByDay(events, count, xid);
  pg::NoteCallerEmitted();
  uint64 bytes = 0;
  for (int i = 0; i < count; i++) {
    bytes += PayloadSize(events[i]);
  }
  metrics::NoteEmitted(static_cast<uint64>(count), bytes);
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
