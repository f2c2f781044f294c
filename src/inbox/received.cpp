// The view outbox.received [P]: what the inbox holds, by consumer and day. Plain.
#include "days/day_table_ddl.h"
#include "inbox/as_owner.h"
#include "inbox/ring.h"
#include "pg/entry.h"

extern "C" {
#include "storage/bufmgr.h"
#include "utils/date.h"
}

namespace outbox::inbox {

namespace {

constexpr BlockNumber kCountedBlocks = 4096;  // 32 MB: what is larger is estimated from as much of it
constexpr int kColumns = 5;

// Adds the rows of one table. consumer, what, day, rows, bytes.
void Add(const ReturnSetInfo* result, const char* table, const char* what, const char* day) {
  Relation relation = table_open(InboxTable(table), AccessShareLock);
  const BlockNumber blocks = RelationGetNumberOfBlocks(relation);
  const Oid oid = RelationGetRelid(relation);
  table_close(relation, NoLock);
  if (blocks == 0) {
    return;
  }
  const double share = blocks <= kCountedBlocks ? 1 : static_cast<double>(kCountedBlocks) / blocks;
  // Bytes: the table with its index, in proportion to the rows.
  const char* sql = psprintf(
      "SELECT consumer, '%s', %s, (count(*) / %.12g)::bigint, (pg_total_relation_size(%u) * (count(*) / sum(count(*)) "
      "OVER ()))::bigint FROM outbox_internal.%s%s GROUP BY 1, 3",
      what, day, share, oid, table, share < 1 ? psprintf(" TABLESAMPLE SYSTEM (%.12g)", share * 100) : "");
  if (SPI_execute(sql, true, 0) != SPI_OK_SELECT) {
    ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not read %s", table)));
  }
  for (uint64 row = 0; row < SPI_processed; row++) {
    Datum values[kColumns];
    bool nulls[kColumns];
    for (int i = 0; i < kColumns; i++) {
      values[i] = SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, i + 1, &nulls[i]);
    }
    tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
  }
  SPI_freetuptable(SPI_tuptable);
}

}  // namespace

}  // namespace outbox::inbox

using namespace outbox::inbox;

OUTBOX_FUNCTION(outbox_received) {
  InitMaterializedSRF(fcinfo, 0);
  const auto* result = reinterpret_cast<ReturnSetInfo*>(fcinfo->resultinfo);
  static constexpr outbox::pg::PinnedSetting kPinned[] = {{"search_path", outbox::pg::kSearchPath}, {"jit", "off"}};
  AsOwner(kPinned, [result] {
    for (int table = 0; table < kTables; table++) {
      char name[NAMEDATALEN];
      TableName(table, name);
      const bool dated = table < kDayTables;
      Add(result, name,
          dated                ? "event"
          : table == kUndatedA ? "undated"
                               : "undated, second table",
          dated ? "outbox_internal.day_of_id(event_id)" : "NULL::date");
    }
    Add(result, "inbox_key", "key", "NULL::date");
    Add(result, "inbox_stream", "stream", "NULL::date");
  });
  return Datum(0);
}

OUTBOX_FUNCTION(outbox_day_of_id) {
  int64 micros = 0;
  if (!TimeOfId(PG_GETARG_UUID_P(0), &micros)) {
    PG_RETURN_NULL();
  }
  return DateADTGetDatum(outbox::days::DayOfMicros(micros) - (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE));
}
