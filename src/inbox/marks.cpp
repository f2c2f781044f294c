#include "inbox/marks.h"

#include <initializer_list>

#include "days/day_table_ddl.h"
#include "inbox/as_owner.h"
#include "inbox/consumer.h"
#include "inbox/kept.h"
#include "inbox/ring.h"
#include "pg/entry.h"
#include "pg/list_argument.h"
#include "pg/rights.h"
#include "pg/settings.h"

extern "C" {
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/datetime.h"
}

namespace outbox::inbox {

namespace {

pg::Statement mark_one[kTables];
pg::Statement mark_many[kTables];
pg::Statement remembered[kDayTables];

pg::Statement* MarkOne(int table) {
  pg::Statement* statement = &mark_one[table];
  if (statement->sql == nullptr) {
    char name[NAMEDATALEN];
    TableName(table, name);
    *statement = {
        MemoryContextStrdup(TopMemoryContext, psprintf("INSERT INTO outbox_internal.%s (consumer, event_id) VALUES "
                                                       "($1, $2) ON CONFLICT (consumer, event_id) DO NOTHING",
                                                       name)),
        2,
        {TEXTOID, UUIDOID}};
  }
  return statement;
}

// In the order of the array.
pg::Statement* MarkMany(int table) {
  pg::Statement* statement = &mark_many[table];
  if (statement->sql == nullptr) {
    char name[NAMEDATALEN];
    TableName(table, name);
    *statement = {MemoryContextStrdup(
                      TopMemoryContext,
                      psprintf("INSERT INTO outbox_internal.%s (consumer, event_id) SELECT $1, i FROM "
                               "pg_catalog.unnest($2) i ON CONFLICT (consumer, event_id) DO NOTHING RETURNING event_id",
                               name)),
                  2,
                  {TEXTOID, UUIDARRAYOID}};
  }
  return statement;
}

// Marks of an id of that day table in any of the tables where it may have one.
pg::Statement* Remembered(int table) {
  pg::Statement* statement = &remembered[table];
  if (statement->sql == nullptr) {
    StringInfoData sql;
    initStringInfo(&sql);
    for (const int one : {table, kUndatedA, kUndatedB}) {
      char name[NAMEDATALEN];
      TableName(one, name);
      appendStringInfo(&sql,
                       "%sSELECT FROM outbox_internal.%s WHERE consumer OPERATOR(pg_catalog.=) $1 AND event_id "
                       "OPERATOR(pg_catalog.=) $2",
                       sql.len > 0 ? " UNION ALL " : "", name);
    }
    *statement = {MemoryContextStrdup(TopMemoryContext, sql.data), 2, {TEXTOID, UUIDOID}};
  }
  return statement;
}

const char* DayText(int32 day) {
  int year = 0;
  int month = 0;
  int mday = 0;
  j2date(day + UNIX_EPOCH_JDATE, &year, &month, &mday);
  return psprintf("%04d-%02d-%02d", year, month, mday);
}

const char* IdText(const pg_uuid_t* id) {
  return DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(id)));
}

[[noreturn]] void RefuseExpired(const pg_uuid_t* id, int32 day, int32 kept_from) {
  ereport(
      ERROR,
      (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
       errmsg("event %s is older than what the inbox remembers", IdText(id)),
       errdetail("It is of %s, and marks are kept from %s on: nobody can say whether it was handled.", DayText(day),
                 DayText(kept_from)),
       errhint("If it was delayed, parked or paused until now and was never handled, SET LOCAL outbox.inbox_expired = "
               "'accept' in the transaction that handles it. SET it to 'accept' for a consumer's first load of old "
               "events, or to 'skip' where it has handled all of that time: 'skip' loses what comes late for the "
               "first time. outbox.inbox_retention says how long marks are kept.")));
}

[[noreturn]] void RefuseAhead(const pg_uuid_t* id, int32 day) {
  ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                  errmsg("the time of event %s is too far ahead: %s", IdText(id), DayText(day)),
                  errdetail("By this server's clock it is %s.", DayText(days::DayOfMicros(TransactionMicros()))),
                  errhint("Compare the clocks of producer and consumer. Of ids whose time means nothing, pass one that "
                          "has none: overlay(md5(id::text) placing '4' from 13)::uuid.")));
}

// Whether an expired event has a mark all the same, by now: it was accepted, or its day has not been emptied yet.
bool IsRemembered(int table, Datum consumer, const pg_uuid_t* id) {
  Datum values[] = {consumer, UUIDPGetDatum(id)};
  return AsOwner([&] { return Run(Remembered(table), values, true) > 0; });
}

// Where a mark goes. -1: nowhere, it counts as handled. Accepted: into the undated tables as well, for from now on and
// for ever it is as old as its mark. (The table of its day comes first: there may be a mark of it yet, or one that
// another transaction has made while the day was kept.)
struct Place {
  int table;
  bool accepted;
};

// Locks that table against being emptied. `*seen`: the newest time of ids whose marks are kept, so far; 0: of none, for
// which no day goes.
Place FindPlace(Datum consumer, const pg_uuid_t* id, int64 now, int64* seen) {
  int64 micros = 0;
  if (!TimeOfId(id, &micros)) {
    return {kUndatedA, false};
  }
  const int32 day = days::DayOfMicros(micros);
  const int table = TableOfDay(day);
  // The lock before the look: who empties the table has to have it alone, and what he has done is known when it was
  // had.
  LockRelationOid(TableOid(table), RowExclusiveLock);
  const Kept kept = CurrentKept();
  // (Whoever has received nothing for weeks has left the row behind; the commit moves it.)
  if (day >= Max(kept.from, DueDay(now, micros)) + kDayTables) {
    RefuseAhead(id, day);
  }
  if (day >= kept.from) {
    *seen = Max(*seen, micros);
    return {table, false};
  }
  switch (static_cast<pg::InboxExpired>(pg::settings.inbox.expired)) {
    case pg::InboxExpired::kError:
      if (!IsRemembered(table, consumer, id)) {
        RefuseExpired(id, day, kept.from);
      }
      return {-1, false};
    case pg::InboxExpired::kSkip:
      return {-1, false};
    case pg::InboxExpired::kAccept:
      return {table, true};
  }
  pg_unreachable();
}

bool Mark(int table, Datum consumer, const pg_uuid_t* id) {
  Datum values[] = {consumer, UUIDPGetDatum(id)};
  return Run(MarkOne(table), values) == 1;
}

int CompareIds(const void* left, const void* right) {
  return memcmp(static_cast<const Candidate*>(left)->id.data, static_cast<const Candidate*>(right)->id.data, UUID_LEN);
}

int CompareByTable(const void* left, const void* right) {
  const auto* a = static_cast<const Candidate*>(left);
  const auto* b = static_cast<const Candidate*>(right);
  if (a->table != b->table) {
    return a->table < b->table ? -1 : 1;
  }
  const int ids = CompareIds(a, b);
  return ids != 0 ? ids : a->order - b->order;
}

int CompareByOrder(const void* left, const void* right) {
  return static_cast<const Candidate*>(left)->order - static_cast<const Candidate*>(right)->order;
}

// Marks those of a run that are `fresh`, sorted by id; leaves it to those that were not marked.
void MarkRun(int table, Datum consumer, Candidate* run, int count) {
  Datum* ids = static_cast<Datum*>(palloc(sizeof(Datum) * count));
  int used = 0;
  for (int i = 0; i < count; i++) {
    // The first of equal ones.
    run[i].fresh = run[i].fresh && (i == 0 || CompareIds(&run[i - 1], &run[i]) != 0);
    if (run[i].fresh) {
      ids[used++] = UUIDPGetDatum(&run[i].id);
    }
  }
  if (used == 0) {
    return;
  }
  Datum values[] = {consumer, PointerGetDatum(construct_array(ids, used, UUIDOID, UUID_LEN, false, TYPALIGN_CHAR))};
  const uint64 rows = Run(MarkMany(table), values);
  uint64 row = 0;
  for (int i = 0; i < count; i++) {
    if (!run[i].fresh) {
      continue;
    }
    bool null = false;
    run[i].fresh =
        row < rows && memcmp(DatumGetUUIDP(SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, 1, &null)),
                             run[i].id.data, UUID_LEN) == 0;
    row += run[i].fresh ? 1 : 0;
  }
  SPI_freetuptable(SPI_tuptable);
}

// Those of these tables.
void MarkAll(Datum consumer, Candidate* candidates, int count, int first, int last) {
  qsort(candidates, count, sizeof(Candidate), CompareByTable);
  for (int begin = 0, end = 0; begin < count; begin = end) {
    const int table = candidates[begin].table;
    while (end < count && candidates[end].table == table) {
      end++;
    }
    if (table >= first && table <= last) {
      MarkRun(table, consumer, candidates + begin, end - begin);
      if (table == kUndatedA) {
        MarkRun(kUndatedB, consumer, candidates + begin, end - begin);
      }
    }
  }
}

}  // namespace

bool Receive(Datum consumer, const pg_uuid_t* id) {
  const int64 now = TransactionMicros();
  int64 seen = 0;
  const Place place = FindPlace(consumer, id, now, &seen);
  if (place.table < 0) {
    return false;
  }
  // Of an undated id: it is new if it is in neither table. It goes into both, so that it is met in one of them for as
  // long as it takes until both were emptied, one and then, a retention later, the other.
  const bool fresh = AsOwner([&] {
    const bool undated = place.accepted || place.table == kUndatedA;
    return (place.table == kUndatedA || Mark(place.table, consumer, id)) &&
           (!undated || (Mark(kUndatedA, consumer, id) && Mark(kUndatedB, consumer, id)));
  });
  BeOnDiskAtCommit(fresh);
  KeepAtCommit(now, seen);
  return fresh;
}

void ReceiveMany(Datum consumer, Candidate* candidates, int count) {
  const int64 now = TransactionMicros();
  int64 seen = 0;
  for (int i = 0; i < count; i++) {
    // (-1: as good as marked; it forms a run that is passed by.)
    const Place place = FindPlace(consumer, &candidates[i].id, now, &seen);
    candidates[i].table = place.table;
    candidates[i].accepted = place.accepted;
    candidates[i].fresh = place.table >= 0;
  }
  AsOwner([&] {
    MarkAll(consumer, candidates, count, 0, kDayTables - 1);
    for (int i = 0; i < count; i++) {
      if (candidates[i].accepted && candidates[i].fresh) {
        candidates[i].table = kUndatedA;
      }
    }
    MarkAll(consumer, candidates, count, kUndatedA, kUndatedA);
  });
  KeepAtCommit(now, seen);
}

}  // namespace outbox::inbox

using namespace outbox::inbox;

OUTBOX_FUNCTION(outbox_receive) {
  outbox::pg::HearOfRights(fcinfo);
  RefuseNull(PG_ARGISNULL(0), "receive", "consumer");
  RefuseNull(PG_ARGISNULL(1), "receive", "event_id");
  const text* consumer = PG_GETARG_TEXT_PP(0);
  CheckConsumer(consumer, "receive");
  return BoolGetDatum(Receive(PointerGetDatum(consumer), PG_GETARG_UUID_P(1)));
}

OUTBOX_FUNCTION(outbox_receive_many) {
  outbox::pg::HearOfRights(fcinfo);
  RefuseNull(PG_ARGISNULL(0), "receive_many", "consumer");
  RefuseNull(PG_ARGISNULL(1), "receive_many", "event_ids");
  const text* consumer = PG_GETARG_TEXT_PP(0);
  CheckConsumer(consumer, "receive_many");
  Datum* values = nullptr;
  bool* nulls = nullptr;
  int count = 0;
  ArrayType* ids = PG_GETARG_ARRAYTYPE_P(1);
  outbox::pg::RequireList(ids, "event_ids");
  deconstruct_array(ids, UUIDOID, UUID_LEN, false, TYPALIGN_CHAR, &values, &nulls, &count);
  InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
  auto* result = reinterpret_cast<ReturnSetInfo*>(fcinfo->resultinfo);
  auto* candidates = static_cast<Candidate*>(palloc(sizeof(Candidate) * Max(count, 1)));
  for (int i = 0; i < count; i++) {
    RefuseNull(nulls[i], "receive_many", "each id");
    candidates[i] = {*DatumGetUUIDP(values[i]), i, 0, false, false};
  }
  ReceiveMany(PointerGetDatum(consumer), candidates, count);
  qsort(candidates, count, sizeof(Candidate), CompareByOrder);
  for (int i = 0; i < count; i++) {
    BeOnDiskAtCommit(candidates[i].fresh);
    if (candidates[i].fresh) {
      Datum value = UUIDPGetDatum(&candidates[i].id);
      bool null = false;
      tuplestore_putvalues(result->setResult, result->setDesc, &value, &null);
    }
  }
  return Datum(0);
}
