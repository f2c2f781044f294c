// One row for each key or stream instead of one for each event [P]: outbox.receive() of the newest value of a key,
// outbox.receive_next() of what is numbered without holes. Plain.
#include "inbox/as_owner.h"
#include "inbox/consumer.h"
#include "pg/entry.h"
#include "pg/rights.h"

namespace outbox::inbox {

namespace {

constexpr int kLongestSource = 200;
constexpr int kLongestKey = 2000;  // together they fit into an entry of a btree
// 2000-01-01 and 2200-01-01: what lies outside was counted in seconds, milliseconds or nanoseconds.
constexpr int64 kFirstCreated = int64{946684800} * USECS_PER_SEC;
constexpr int64 kLastCreated = int64{7258118400} * USECS_PER_SEC;

// The row's lock is what a concurrent transaction waits for, as at any unique index.
pg::Statement newest = {
    "INSERT INTO outbox_internal.inbox_key AS k (consumer, source, key, created_at) VALUES ($1, $2, $3, $4) "
    "ON CONFLICT (consumer, source, key) DO UPDATE SET created_at = excluded.created_at "
    "WHERE k.created_at OPERATOR(pg_catalog.<) excluded.created_at",
    4,
    {TEXTOID, TEXTOID, TEXTOID, INT8OID}};

pg::Statement next = {
    "INSERT INTO outbox_internal.inbox_stream AS s (consumer, stream, reached) VALUES ($1, $2, $3) "
    "ON CONFLICT (consumer, stream) DO UPDATE SET reached = excluded.reached "
    "WHERE CASE WHEN $4 THEN s.reached OPERATOR(pg_catalog.<) excluded.reached "
    "ELSE s.reached OPERATOR(pg_catalog.=) (excluded.reached OPERATOR(pg_catalog.-) 1::bigint) END",
    4,
    {TEXTOID, TEXTOID, INT8OID, BOOLOID}};

pg::Statement reached = {
    "SELECT s.reached FROM outbox_internal.inbox_stream s WHERE s.consumer OPERATOR(pg_catalog.=) $1 "
    "AND s.stream OPERATOR(pg_catalog.=) $2",
    2,
    {TEXTOID, TEXTOID}};

void CheckSize(const text* value, const char* what, int most) {
  if (static_cast<int>(VARSIZE_ANY_EXHDR(value)) > most) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s is longer than %d bytes", what, most),
                    errdetail("It has %d.", static_cast<int>(VARSIZE_ANY_EXHDR(value))),
                    errhint("Pass a digest of it, such as md5(...).")));
  }
}

// -1: there is none.
int64 Reached(Datum* values) {
  if (Run(&reached, values) == 0) {
    return -1;
  }
  bool null = false;
  return DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &null));
}

}  // namespace

}  // namespace outbox::inbox

using namespace outbox::inbox;

OUTBOX_FUNCTION(outbox_receive_newest) {
  outbox::pg::HearOfRights(fcinfo);
  static const char* const names[] = {"consumer", "source", "key", "created_at"};
  for (int i = 0; i < 4; i++) {
    RefuseNull(PG_ARGISNULL(i), "receive", names[i]);
  }
  const text* consumer = PG_GETARG_TEXT_PP(0);
  const text* source = PG_GETARG_TEXT_PP(1);
  const text* key = PG_GETARG_TEXT_PP(2);
  const int64 created_at = PG_GETARG_INT64(3);
  CheckConsumer(consumer, "receive");
  CheckSize(source, "source", kLongestSource);
  CheckSize(key, "key", kLongestKey);
  if (created_at < kFirstCreated || created_at >= kLastCreated) {
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("created_at is no number of microseconds since 1970: %lld", static_cast<long long>(created_at)),
             errdetail("It would be before the year 2000 or after 2199."),
             errhint("Pass the header created_at as it is.")));
  }
  Datum values[] = {PointerGetDatum(consumer), PointerGetDatum(source), PointerGetDatum(key),
                    Int64GetDatum(created_at)};
  const bool fresh = AsOwner([&values] { return Run(&newest, values) == 1; });
  BeOnDiskAtCommit(fresh);
  return BoolGetDatum(fresh);
}

OUTBOX_FUNCTION(outbox_receive_next) {
  outbox::pg::HearOfRights(fcinfo);
  static const char* const names[] = {"consumer", "stream", "stream_position", "allow_gaps"};
  for (int i = 0; i < 4; i++) {
    RefuseNull(PG_ARGISNULL(i), "receive_next", names[i]);
  }
  const text* consumer = PG_GETARG_TEXT_PP(0);
  const text* stream = PG_GETARG_TEXT_PP(1);
  const int64 position = PG_GETARG_INT64(2);
  CheckConsumer(consumer, "receive_next");
  CheckStreamName(stream);
  if (position < 0) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("stream_position must not be negative: %lld", static_cast<long long>(position)),
                    errdetail("Positions are counted from 0."), errhint("Pass the offset of the record.")));
  }
  // (Not forced to disk: who goes by positions asks received_to() where to go on, so what a crash has taken back comes
  // again.)
  Datum values[] = {PointerGetDatum(consumer), PointerGetDatum(stream), Int64GetDatum(position), PG_GETARG_DATUM(3)};
  const char* answer = AsOwner([&]() -> const char* {
    if (Run(&next, values) > 0) {
      return "next";
    }
    // (The row is locked all the same, so what is read now stays true.)
    return position <= Reached(values) ? "repeat" : "gap";
  });
  return PointerGetDatum(cstring_to_text(answer));
}

OUTBOX_FUNCTION(outbox_received_to) {
  outbox::pg::HearOfRights(fcinfo);
  RefuseNullName(PG_ARGISNULL(0), "received_to", "consumer", "outbox.received_to('billing', 'orders/0')");
  RefuseNullName(PG_ARGISNULL(1), "received_to", "stream", "outbox.received_to('billing', 'orders/0')");
  const text* consumer = PG_GETARG_TEXT_PP(0);
  const text* stream = PG_GETARG_TEXT_PP(1);
  CheckConsumerRight(consumer);
  Datum values[] = {PointerGetDatum(consumer), PointerGetDatum(stream)};
  const int64 position = AsOwner([&values] { return Reached(values); });
  if (position < 0) {
    PG_RETURN_NULL();
  }
  return Int64GetDatum(position);
}
