#include "pg/statement.h"

#include "pg/transaction.h"

namespace outbox::pg {

void Prepare(Statement* statement) {
  if (statement->plan != nullptr) {
    return;
  }
  SPIPlanPtr plan = SPI_prepare(statement->sql, statement->arguments, statement->types);
  if (plan == nullptr || SPI_keepplan(plan) != 0) {
    ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                    errmsg("could not prepare a statement of outbox: %s", SPI_result_code_string(SPI_result))));
  }
  statement->plan = plan;
}

void CheckSpi(int result) {
  if (result < 0) {
    ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                    errmsg("could not run a statement of outbox: %s", SPI_result_code_string(result))));
  }
}

void RunStatement(Statement* statement, Datum* values, const char* nulls) {
  RequirePinnedSearchPath();
  Prepare(statement);
  CheckSpi(SPI_execute_plan(statement->plan, values, nulls, false, 0));
}

Datum ResultDatum(uint64 row, int column, bool* isnull) {
  return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column + 1, isnull);
}

int64 ResultInt64(uint64 row, int column) {
  bool isnull = false;
  Datum value = ResultDatum(row, column, &isnull);
  return isnull ? 0 : DatumGetInt64(value);
}

int32 ResultInt32(uint64 row, int column) {
  bool isnull = false;
  Datum value = ResultDatum(row, column, &isnull);
  return isnull ? 0 : DatumGetInt32(value);
}

bool ResultBool(uint64 row, int column) {
  bool isnull = false;
  Datum value = ResultDatum(row, column, &isnull);
  return !isnull && DatumGetBool(value);
}

TimestampTz ResultTime(uint64 row, int column) {
  bool isnull = false;
  Datum value = ResultDatum(row, column, &isnull);
  return isnull ? 0 : DatumGetTimestampTz(value);
}

Uuid ResultUuid(uint64 row, int column) {
  bool isnull = false;
  const Datum value = ResultDatum(row, column, &isnull);
  Uuid id{};
  if (!isnull) {
    memcpy(id.data(), DatumGetUUIDP(value)->data, id.size());
  }
  return id;
}

const char* ResultText(uint64 row, int column) {
  return SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column + 1);
}

ResultRow TakeRow(uint64 row) {
  TupleDesc columns = SPI_tuptable->tupdesc;
  const auto count = static_cast<size_t>(columns->natts);
  auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * count));
  auto* nulls = static_cast<bool*>(palloc(sizeof(bool) * count));
  heap_deform_tuple(SPI_tuptable->vals[row], columns, values, nulls);
  return {columns, values, nulls};
}

Datum ResultDatum(const ResultRow& row, int column, bool* isnull) {
  *isnull = row.nulls[column];
  return row.values[column];
}

int64 ResultInt64(const ResultRow& row, int column) {
  return row.nulls[column] ? 0 : DatumGetInt64(row.values[column]);
}

int32 ResultInt32(const ResultRow& row, int column) {
  return row.nulls[column] ? 0 : DatumGetInt32(row.values[column]);
}

bool ResultBool(const ResultRow& row, int column) {
  return !row.nulls[column] && DatumGetBool(row.values[column]);
}

const char* ResultText(const ResultRow& row, int column) {
  if (row.nulls[column]) {
    return nullptr;
  }
  const Oid type = TupleDescAttr(row.columns, column)->atttypid;
  if (type == TEXTOID) {
    return TextDatumGetCString(row.values[column]);
  }
  Oid output = InvalidOid;
  bool varlena = false;
  getTypeOutputInfo(type, &output, &varlena);
  return OidOutputFunctionCall(output, row.values[column]);
}

}  // namespace outbox::pg
