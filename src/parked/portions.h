// Rows of one route in outbox_internal.parked, portion by portion [P]: there may be a million. Plain code.
#pragma once

#include "parked/rows.h"
#include "pg/statement.h"

namespace outbox::parked {

// Runs `read` for one portion after the other, and `handle`, bool(uint64 rows), with each as the last result, until
// that returns false. Returns false then.
//
// The statement begins with created_at, id and replay, in their order; takes the route as $1, of the row behind which
// it begins these three as $2 to $4, how many rows at most as $5, and `more` as $6, where it has so many.
template <typename Handle>
bool ForEachPortion(pg::Statement* read, int64 route_id, Datum more, Handle&& handle) {
  constexpr uint64 kPortion = 2000;
  Datum values[] = {Int64GetDatum(route_id),     TimestampTzGetDatum(DT_NOBEGIN), pg::UuidDatum(Uuid{}),
                    Int64GetDatum(PG_INT64_MIN), Int64GetDatum(kPortion),         more};
  for (uint64 rows = kPortion; rows == kPortion;) {
    CHECK_FOR_INTERRUPTS();
    pg::RunStatement(read, values);
    SPITupleTable* portion = SPI_tuptable;
    rows = SPI_processed;
    if (rows > 0) {
      const RowKey last = ReadKey(rows - 1);
      values[1] = last.created_at;
      values[2] = last.id;
      values[3] = last.replay;
    }
    const bool going = handle(rows);
    SPI_freetuptable(portion);
    if (!going) {
      return false;
    }
  }
  return true;
}

}  // namespace outbox::parked
