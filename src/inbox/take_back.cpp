// What operators do [P]: marks taken back, so that events are handled again; a stream moved; and the guard against
// doing it by hand. Plain.
#include <initializer_list>

#include "days/day_table_ddl.h"
#include "inbox/as_owner.h"
#include "inbox/consumer.h"
#include "inbox/kept.h"
#include "inbox/ring.h"
#include "pg/entry.h"
#include "pg/rights.h"
#include "pg/schemas.h"
#include "pg/settings.h"
#include "pg/time_text.h"
#include "pg/transaction.h"
#include "pg/writable.h"

extern "C" {
#include "commands/trigger.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
}

namespace outbox::inbox {

namespace {

pg::Statement audit = {
    "INSERT INTO outbox.audit (who, action, detail) VALUES (session_user, $1, "
    "pg_catalog.jsonb_build_object('consumer', "
    "$2) OPERATOR(pg_catalog.||) pg_catalog.jsonb_object($3))",
    3,
    {TEXTOID, TEXTOID, TEXTARRAYOID}};

pg::Statement note_loss = {
    "INSERT INTO outbox.audit (who, action, detail) VALUES (session_user, 'allow_loss', "
    "pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object('command', $1, 'role', $2)))",
    2,
    {TEXTOID, TEXTOID}};

// What outbox.allow_loss lets somebody do to that table, before it is known of how many marks: they are too many for a
// trigger that looks at each, or for a copy of all.
void NoteLoss(const TriggerData* trigger) {
  const char* verb = TRIGGER_FIRED_BY_DELETE(trigger->tg_event) ? "delete from" : "truncate";
  const Relation table = trigger->tg_relation;
  const char* command =
      psprintf("%s %s.%s", verb, get_namespace_name(RelationGetNamespace(table)), RelationGetRelationName(table));
  const char* role = pg::OtherRole();
  Datum values[] = {CStringGetTextDatum(command), role != nullptr ? CStringGetTextDatum(role) : Datum{0}};
  AsOwner([&values, role] { Run(&note_loss, values, false, role != nullptr ? nullptr : " n"); });
}

// Of what was taken back: into the audit, and onto disk. `detail`: names and values in turn. `role`: pg::OtherRole() of
// the caller.
void Finish(const char* action, Datum consumer, std::initializer_list<const char*> detail, const char* role) {
  constexpr int kMost = 8;
  Datum texts[kMost + 2];
  int count = 0;
  for (const char* text : detail) {
    texts[count++] = CStringGetTextDatum(text);
  }
  if (role != nullptr) {
    texts[count++] = CStringGetTextDatum("role");
    texts[count++] = CStringGetTextDatum(role);
  }
  Datum values[] = {CStringGetTextDatum(action), consumer,
                    PointerGetDatum(construct_array(texts, count, TEXTOID, -1, false, TYPALIGN_INT))};
  Run(&audit, values);
  BeOnDiskAtCommit(true);
}

// Rarely run, so planned each time.
uint64 Delete(const char* table, const char* condition, int arguments, Oid* types, Datum* values) {
  const char* sql =
      psprintf("DELETE FROM outbox_internal.%s WHERE consumer OPERATOR(pg_catalog.=) $1%s", table, condition);
  pg::CheckSpi(SPI_execute_with_args(sql, arguments, types, values, nullptr, false, 0));
  return SPI_processed;
}

uint64 DeleteMarks(int first, int last, const char* condition, int arguments, Oid* types, Datum* values) {
  uint64 rows = 0;
  for (int table = first; table <= last; table++) {
    char name[NAMEDATALEN];
    TableName(table, name);
    rows += Delete(name, condition, arguments, types, values);
  }
  return rows;
}

struct TakenBack {
  int64 events;
  int64 expired;  // of them
};

// The same in one table, of an id that is not among `seen` already; adds to `seen` what an undated table had.
TakenBack DeleteRangeIn(int table, Datum consumer, const pg_uuid_t* ends, Snapshot snapshot, Datum* seen) {
  const bool dated = table < kDayTables;
  char name[NAMEDATALEN];
  TableName(table, name);
  const char* sql = psprintf(
      "WITH m AS (DELETE FROM outbox_internal.%s WHERE consumer OPERATOR(pg_catalog.=) $1 AND event_id "
      "OPERATOR(pg_catalog.>=) $2 AND event_id OPERATOR(pg_catalog.<) $3%s RETURNING event_id) "
      "SELECT pg_catalog.count(*), pg_catalog.count(*) FILTER (WHERE event_id OPERATOR(pg_catalog.<) $4)%s FROM m "
      "WHERE event_id OPERATOR(pg_catalog.<>) ALL ($5)",
      name, dated ? "" : " AND outbox_internal.day_of_id(event_id) IS NOT NULL",
      dated ? "" : ", pg_catalog.array_cat($5, pg_catalog.array_agg(event_id))");
  Oid types[] = {TEXTOID, UUIDOID, UUIDOID, UUIDOID, UUIDARRAYOID};
  Datum values[] = {consumer, UUIDPGetDatum(&ends[0]), UUIDPGetDatum(&ends[1]), UUIDPGetDatum(&ends[2]), *seen};
  SPIPlanPtr plan = SPI_prepare(sql, 5, types);
  pg::CheckSpi(plan == nullptr
                   ? SPI_result
                   : SPI_execute_snapshot(plan, values, nullptr, snapshot, InvalidSnapshot, false, true, 0));
  const TakenBack taken = {pg::ResultInt64(0, 0), pg::ResultInt64(0, 1)};
  if (!dated) {
    bool null = false;
    *seen = pg::ResultDatum(0, 2, &null);
  }
  return taken;
}

// Takes back the marks of dated ids from the first of these up to the second, and returns of how many events, and how
// many of those are before the third. An event that was accepted late has several; what lies beside it in the undated
// tables has no time. Table by table, under one snapshot: an error shows the statement that it comes from, and one for
// all of them has 7 kB.
TakenBack DeleteRange(Datum consumer, const pg_uuid_t* ends) {
  Datum seen = PointerGetDatum(construct_empty_array(UUIDOID));
  TakenBack all = {0, 0};
  Snapshot snapshot = RegisterSnapshot(GetTransactionSnapshot());
  for (int i = 0; i < kTables; i++) {
    const int table = (i + kUndatedA) % kTables;  // the undated ones first: what they have may be in one of the others
    const TakenBack taken = DeleteRangeIn(table, consumer, ends, snapshot, &seen);
    all.events += taken.events;
    all.expired += taken.expired;
  }
  UnregisterSnapshot(snapshot);
  return all;
}

// Keys whose newest value is of that time (Unix microseconds, the end not in it): the next event of such a key is
// taken, whatever its time. Returns how many.
int64 DeleteKeys(Datum consumer, int64 since, int64 until) {
  Oid types[] = {TEXTOID, INT8OID, INT8OID};
  Datum values[] = {consumer, Int64GetDatum(since), Int64GetDatum(until)};
  return static_cast<int64>(
      Delete("inbox_key", " AND created_at OPERATOR(pg_catalog.>=) $2 AND created_at OPERATOR(pg_catalog.<) $3", 3,
             types, values));
}

// How many streams the consumer has, and one of them in the caller's memory.
int64 CountStreams(Datum consumer, MemoryContext memory, char** stream) {
  static pg::Statement streams = {
      "SELECT pg_catalog.count(*), pg_catalog.min(s.stream) FROM outbox_internal.inbox_stream s "
      "WHERE s.consumer OPERATOR(pg_catalog.=) $1",
      1,
      {TEXTOID}};
  Run(&streams, &consumer);
  const int64 count = pg::ResultInt64(0, 0);
  if (count > 0) {
    *stream = MemoryContextStrdup(memory, pg::ResultText(0, 1));
  }
  return count;
}

void TellStreams(int64 count, const text* consumer, const char* stream) {
  if (count == 0) {
    return;
  }
  const char* name = text_to_cstring(consumer);
  ereport(NOTICE, (errmsg_plural("%lld stream of consumer \"%s\" stays where it is",
                                 "%lld streams of consumer \"%s\" stay where they are",
                                 static_cast<unsigned long>(count), static_cast<long long>(count), name),
                   errdetail("Only the last position of a stream is kept, which has no time."),
                   errhint("SELECT outbox.seek_stream(%s, %s, next_position) says which position is the next.",
                           quote_literal_cstr(name), quote_literal_cstr(stream))));
}

// Where no id that has a time is refused for its age.
pg_uuid_t LeastKeptId() {
  return LeastIdOf(days::DayStartMicros(CurrentKept().from));
}

// They are not new when they come again, as their marks are gone: nobody knows of them, and that is refused.
void TellExpired(int64 events) {
  if (events == 0 || static_cast<pg::InboxExpired>(pg::settings.inbox.expired) == pg::InboxExpired::kAccept) {
    return;
  }
  ereport(NOTICE, (errmsg_plural("%lld event that was taken back is older than what the inbox remembers",
                                 "%lld events that were taken back are older than what the inbox remembers",
                                 static_cast<unsigned long>(events), static_cast<long long>(events)),
                   errdetail("Without its mark such an event is refused when it comes again, or passed over, as "
                             "outbox.inbox_expired says."),
                   errhint("SET LOCAL outbox.inbox_expired = 'accept' in the transaction that handles it again.")));
}

}  // namespace

}  // namespace outbox::inbox

using namespace outbox::inbox;

OUTBOX_FUNCTION(outbox_forget_received) {
  outbox::pg::RequireWritable("outbox.forget_received()");
  RefuseNullName(PG_ARGISNULL(0), "forget_received", "consumer",
                 "outbox.forget_received('billing', '019a2c5e-7d1f-7000-8000-000000000000')");
  RefuseNullName(PG_ARGISNULL(1), "forget_received", "event_id",
                 "outbox.forget_received('billing', '019a2c5e-7d1f-7000-8000-000000000000')");
  const text* consumer = PG_GETARG_TEXT_PP(0);
  CheckConsumerName(consumer);
  const pg_uuid_t* id = PG_GETARG_UUID_P(1);
  Oid types[] = {TEXTOID, UUIDOID};
  Datum values[] = {PointerGetDatum(consumer), UUIDPGetDatum(id)};
  const char* role = outbox::pg::OtherRole();
  int64 micros = 0;
  const bool dated = TimeOfId(id, &micros);
  const bool there = AsOwner([&] {
    const char* condition = " AND event_id OPERATOR(pg_catalog.=) $2";
    uint64 rows = 0;
    if (dated) {
      const int table = TableOfDay(static_cast<int32>(micros / (SECS_PER_DAY * USECS_PER_SEC)));
      rows += DeleteMarks(table, table, condition, 2, types, values);
    }
    rows += DeleteMarks(kUndatedA, kUndatedB, condition, 2, types, values);
    if (rows > 0) {
      Finish("forget_received", values[0], {"event", DatumGetCString(DirectFunctionCall1(uuid_out, values[1]))}, role);
    }
    return rows > 0;
  });
  const pg_uuid_t kept = LeastKeptId();
  TellExpired(there && dated && memcmp(id->data, kept.data, UUID_LEN) < 0 ? 1 : 0);
  return BoolGetDatum(there);
}

OUTBOX_FUNCTION(outbox_reprocess) {
  outbox::pg::RequireWritable("outbox.reprocess()");
  RefuseNullName(PG_ARGISNULL(0), "reprocess", "consumer",
                 "outbox.reprocess('billing', since => '2026-01-31 12:00+00')");
  if (PG_ARGISNULL(1) || PG_ARGISNULL(2)) {
    ereport(ERROR,
            (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
             errmsg("%s of outbox.reprocess() must not be null", PG_ARGISNULL(1) ? "since" : "until"),
             errdetail("It says of which time events are new again, by when they were created."),
             errhint("since => '-infinity' takes all events whose id has a time, and all keys, forget_consumer() the "
                     "others, too; until is infinity by default.")));
  }
  const text* consumer = PG_GETARG_TEXT_PP(0);
  CheckConsumerName(consumer);
  const int64 since = SaturatedUnixMicros(PG_GETARG_TIMESTAMPTZ(1));
  const int64 until = SaturatedUnixMicros(PG_GETARG_TIMESTAMPTZ(2));
  if (since >= until) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("since must be before until"),
                    errdetail("No event was created in that time."), errhint("until is infinity by default.")));
  }
  const pg_uuid_t ends[] = {LeastIdOf(since), LeastIdOf(until), LeastKeptId()};
  const Datum name = PointerGetDatum(consumer);
  const char* role = outbox::pg::OtherRole();
  const MemoryContext memory = CurrentMemoryContext;
  int64 keys = 0;
  int64 streams = 0;
  char* stream = nullptr;
  const TakenBack taken = AsOwner([&] {
    const TakenBack taken_back = DeleteRange(name, ends);
    keys = DeleteKeys(name, since, until);
    streams = CountStreams(name, memory, &stream);
    Finish(
        "reprocess", name,
        {"since", outbox::pg::UtcText(PG_GETARG_TIMESTAMPTZ(1)), "until", outbox::pg::UtcText(PG_GETARG_TIMESTAMPTZ(2)),
         "marks", psprintf(INT64_FORMAT, taken_back.events), "keys", psprintf(INT64_FORMAT, keys)},
        role);
    return taken_back;
  });
  TellExpired(taken.expired);
  TellStreams(streams, consumer, stream);
  return Int64GetDatum(taken.events + keys);
}

OUTBOX_FUNCTION(outbox_forget_consumer) {
  outbox::pg::RequireWritable("outbox.forget_consumer()");
  RefuseNullName(PG_ARGISNULL(0), "forget_consumer", "consumer", "outbox.forget_consumer('billing')");
  const text* consumer = PG_GETARG_TEXT_PP(0);
  CheckConsumerName(consumer);
  Oid types[] = {TEXTOID};
  Datum values[] = {PointerGetDatum(consumer)};
  const char* role = outbox::pg::OtherRole();
  const uint64 rows = AsOwner([&] {
    uint64 deleted = DeleteMarks(0, kTables - 1, "", 1, types, values);
    deleted += Delete("inbox_key", "", 1, types, values);
    deleted += Delete("inbox_stream", "", 1, types, values);
    if (deleted > 0) {
      Finish("forget_consumer", values[0], {"rows", psprintf(UINT64_FORMAT, deleted)}, role);
    }
    return deleted;
  });
  return Int64GetDatum(static_cast<int64>(rows));
}

// Returns the position that was expected before; NULL: any.
OUTBOX_FUNCTION(outbox_seek_stream) {
  static outbox::pg::Statement former = {
      "SELECT CASE WHEN s.reached OPERATOR(pg_catalog.=) 9223372036854775807 THEN s.reached "
      "ELSE s.reached OPERATOR(pg_catalog.+) 1::bigint END FROM outbox_internal.inbox_stream s "
      "WHERE s.consumer OPERATOR(pg_catalog.=) $1 AND s.stream OPERATOR(pg_catalog.=) $2 FOR UPDATE",
      2,
      {TEXTOID, TEXTOID}};
  static outbox::pg::Statement move = {
      "INSERT INTO outbox_internal.inbox_stream (consumer, stream, reached) VALUES ($1, $2, $3 OPERATOR(pg_catalog.-) "
      "1::bigint) ON CONFLICT (consumer, stream) DO UPDATE SET reached = excluded.reached",
      3,
      {TEXTOID, TEXTOID, INT8OID}};
  outbox::pg::RequireWritable("outbox.seek_stream()");
  RefuseNullName(PG_ARGISNULL(0), "seek_stream", "consumer", "outbox.seek_stream('billing', 'orders/0', 4711)");
  RefuseNullName(PG_ARGISNULL(1), "seek_stream", "stream", "outbox.seek_stream('billing', 'orders/0', 4711)");
  const text* consumer = PG_GETARG_TEXT_PP(0);
  const text* stream = PG_GETARG_TEXT_PP(1);
  CheckConsumerName(consumer);
  CheckStreamName(stream);
  const bool anew = PG_ARGISNULL(2);
  if (!anew && PG_GETARG_INT64(2) < 0) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("next_position must not be negative"),
                    errdetail("Positions are counted from 0."),
                    errhint("Pass NULL to take whatever comes first as the beginning.")));
  }
  Oid types[] = {TEXTOID, TEXTOID};
  Datum values[] = {PointerGetDatum(consumer), PointerGetDatum(stream), anew ? Datum(0) : PG_GETARG_DATUM(2)};
  bool null = true;
  const char* role = outbox::pg::OtherRole();
  const int64 expected = AsOwner([&] {
    LockRelationOid(InboxTable("inbox_stream"), RowExclusiveLock);  // before it is read: admin/common/write_lock.h
    null = Run(&former, values) == 0;
    const Datum before = null ? Datum(0) : SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &null);
    const int64 position = null ? 0 : DatumGetInt64(before);
    if (anew) {
      Delete("inbox_stream", " AND stream OPERATOR(pg_catalog.=) $2", 2, types, values);
    } else {
      Run(&move, values);
    }
    Finish("seek_stream", values[0],
           {"stream", text_to_cstring(stream), "next",
            anew ? "any" : psprintf("%lld", static_cast<long long>(PG_GETARG_INT64(2)))},
           role);
    return position;
  });
  if (null) {
    PG_RETURN_NULL();
  }
  return Int64GetDatum(expected);
}

// Statement trigger on all tables of the inbox.
OUTBOX_FUNCTION(outbox_refuse_forgetting) {
  static constexpr outbox::pg::TriggerUse kUse = {"outbox_internal.refuse_forgetting()",
                                                  [](const TriggerData& trigger) {
                                                    return TRIGGER_FIRED_FOR_STATEMENT(trigger.tg_event) &&
                                                           TRIGGER_FIRED_BEFORE(trigger.tg_event);
                                                  },
                                                  "a BEFORE trigger FOR EACH STATEMENT"};
  const TriggerData* trigger = outbox::pg::TriggerOf(fcinfo, kUse);
  if (outbox::pg::InOwnStatement()) {
    return Datum{0};
  }
  if (!outbox::pg::settings.allow_loss) {
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("%s holds what consumers have handled, and is not changed by hand",
                    RelationGetRelationName(trigger->tg_relation)),
             errdetail("Events whose mark is gone would be handled twice."),
             errhint("outbox.forget_received(), reprocess(), forget_consumer() and seek_stream() take back what they "
                     "say; a superuser may SET outbox.allow_loss = on.")));
  }
  if (outbox::pg::IsOurSchema(RelationGetNamespace(trigger->tg_relation))) {
    NoteLoss(trigger);
  }
  return Datum{0};
}
