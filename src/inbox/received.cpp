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

constexpr BlockNumber kCountedBlocks = 4096;  // 32 MB: what is larger is not read to its end
constexpr int kCountedRows = 1000;            // of a consumer in a larger one
constexpr int kColumns = 5;

// A table of marks: `what` it has, their day, and the columns of its primary key.
struct Marks {
  const char* table;
  const char* what;
  const char* day;
  const char* key;
};

// consumer, day, rows.
const char* CountSql(const Marks& marks) {
  return psprintf("SELECT consumer, %s AS day, count(*) AS rows FROM outbox_internal.%s GROUP BY 1, 2", marks.day,
                  marks.table);
}

// The same of a large table, of which `share` is read. Who is in it is found by the index, by one step for each, for a
// sample leaves out who has little. Rows are counted there, too, of each as many as are counted; who has more has what
// the sample says, or at least those. (In the order of the index: by any other plan the table would be read.)
const char* EstimateSql(const Marks& marks, double share) {
  return psprintf(
      "WITH RECURSIVE c (consumer) AS ("
      "(SELECT m.consumer FROM outbox_internal.%1$s m ORDER BY m.consumer LIMIT 1) UNION ALL "
      "SELECT (SELECT m.consumer FROM outbox_internal.%1$s m WHERE m.consumer > c.consumer ORDER BY m.consumer LIMIT "
      "1) "
      "FROM c WHERE c.consumer IS NOT NULL), "
      "counted AS MATERIALIZED (SELECT c.consumer, d.day, d.rows, sum(d.rows) OVER (PARTITION BY c.consumer) > %2$d AS "
      "more FROM c CROSS JOIN LATERAL (SELECT f.day, count(*) AS rows FROM (SELECT %3$s AS day FROM "
      "outbox_internal.%1$s m WHERE m.consumer = c.consumer ORDER BY %4$s LIMIT %2$d + 1) f GROUP BY f.day) d), "
      "sampled AS (SELECT consumer, %3$s AS day, (count(*) / %5$.12g)::bigint AS rows FROM outbox_internal.%1$s "
      "TABLESAMPLE SYSTEM (%6$.12g) GROUP BY 1, 2) "
      "SELECT consumer, day, rows FROM counted WHERE NOT more UNION ALL "
      "SELECT consumer, day, max(rows) FROM (SELECT consumer, day, rows FROM counted WHERE more UNION ALL "
      "SELECT consumer, day, rows FROM sampled WHERE consumer IN (SELECT consumer FROM counted WHERE more)) x "
      "GROUP BY 1, 2",
      marks.table, kCountedRows, marks.day, marks.key, share, share * 100);
}

// Adds the rows of one table. consumer, what, day, rows, bytes.
void Add(const ReturnSetInfo* result, const Marks& marks) {
  Relation relation = table_open(InboxTable(marks.table), AccessShareLock);
  const BlockNumber blocks = RelationGetNumberOfBlocks(relation);
  const Oid oid = RelationGetRelid(relation);
  table_close(relation, NoLock);
  if (blocks == 0) {
    return;
  }
  // Bytes: the table with its index, in proportion to the rows.
  const char* sql = psprintf(
      "SELECT consumer, '%s', day, rows, (pg_total_relation_size(%u) * (rows / sum(rows) OVER ()))::bigint FROM (%s) t",
      marks.what, oid,
      blocks <= kCountedBlocks ? CountSql(marks) : EstimateSql(marks, static_cast<double>(kCountedBlocks) / blocks));
  if (SPI_execute(sql, true, 0) != SPI_OK_SELECT) {
    ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not read %s", marks.table)));
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
      const char* what = dated ? "event" : table == kUndatedA ? "undated" : "undated, second table";
      Add(result, {name, what, dated ? "outbox_internal.day_of_id(event_id)" : "NULL::date", "consumer, event_id"});
    }
    Add(result, {"inbox_key", "key", "NULL::date", "consumer, source, key"});
    Add(result, {"inbox_stream", "stream", "NULL::date", "consumer, stream"});
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
