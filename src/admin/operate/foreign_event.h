// An event out of a row of outbox_internal.foreign_event [P]. Plain code, inside of SPI.
#pragma once

#include "emit/insert.h"

namespace outbox::admin {

// Columns of a query that FillForeignEvent() takes, one after the other.
#define OUTBOX_FOREIGN_EVENT \
  "id, aggregate_type, aggregate_id, event_type, payload, content_type, headers, topic, deliver_at"

// The value of a column of a row, detoasted in the current memory context; nullptr: NULL.
template <typename T>
T* Detoasted(HeapTuple row, TupleDesc columns, int number) {
  bool null = true;
  Datum value = SPI_getbinval(row, columns, number, &null);
  return null ? nullptr : reinterpret_cast<T*>(PG_DETOAST_DATUM_PACKED(value));
}

// `first`: the number of their first column. Nothing else of *event is set.
void FillForeignEvent(HeapTuple row, TupleDesc columns, int first, emit::NewEvent* event);

}  // namespace outbox::admin
