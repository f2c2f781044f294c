// SQL statements of our own [P]: prepared once per process, run by SPI. Plain code, for use inside a transaction with
// SPI connected.
#pragma once

#include "base/uuid.h"
#include "pg/prelude.h"

namespace outbox::pg {

// A constant statement. Tables and functions of outbox are schema-qualified. Made as a static object without a
// constructor.
struct Statement {
  static constexpr int kMaxArguments = 24;
  const char* sql;
  int arguments;
  Oid types[kMaxArguments];
  SPIPlanPtr plan = nullptr;
};

// Plans it, if that has not been done.
void Prepare(Statement* statement);
// Raises what SPI answers for an error.
void CheckSpi(int result);

// Of a worker: operators and built-in functions have no schema in it, because it runs only with a pinned search_path.
// Raises an error if the result is not the expected one, or search_path is not pinned. Rows are in SPI_tuptable, their
// number in SPI_processed. `nulls`: nullptr or one character per argument, 'n' for NULL.
void RunStatement(Statement* statement, Datum* values, const char* nulls = nullptr);

// A column of a row of the last result (columns from 0).
Datum ResultDatum(uint64 row, int column, bool* isnull);
// NULL is 0, or false.
int64 ResultInt64(uint64 row, int column);
int32 ResultInt32(uint64 row, int column);
bool ResultBool(uint64 row, int column);
TimestampTz ResultTime(uint64 row, int column);
Uuid ResultUuid(uint64 row, int column);
// In its type's text form; nullptr: NULL.
const char* ResultText(uint64 row, int column);

// A row of the last result that is taken apart once: the functions above go through it anew for each column. palloc'd;
// as long as the result.
struct ResultRow {
  TupleDesc columns;
  Datum* values;
  bool* nulls;
};
ResultRow TakeRow(uint64 row);
Datum ResultDatum(const ResultRow& row, int column, bool* isnull);
int64 ResultInt64(const ResultRow& row, int column);
int32 ResultInt32(const ResultRow& row, int column);
bool ResultBool(const ResultRow& row, int column);
const char* ResultText(const ResultRow& row, int column);

}  // namespace outbox::pg
