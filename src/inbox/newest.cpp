// One row for each key or stream instead of one for each event [P]: outbox.receive() of the newest value of a key,
// outbox.receive_next() of what is numbered without holes. Plain.
#include <initializer_list>

#include "inbox/as_owner.h"
#include "inbox/consumer.h"
#include "pg/entry.h"
#include "pg/rights.h"

extern "C" {
#include "common/hashfn.h"
#include "executor/instrument.h"
}

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
    "WHERE k.created_at OPERATOR(pg_catalog.<) excluded.created_at RETURNING k.ctid",
    4,
    {TEXTOID, TEXTOID, TEXTOID, INT8OID}};

// The same for a row that is at a place, if it is.
pg::Statement newest_at = {
    "UPDATE outbox_internal.inbox_key AS k SET created_at = $4 WHERE k.ctid OPERATOR(pg_catalog.=) $5 "
    "AND k.consumer OPERATOR(pg_catalog.=) $1 AND k.source OPERATOR(pg_catalog.=) $2 AND k.key "
    "OPERATOR(pg_catalog.=) $3 AND k.created_at OPERATOR(pg_catalog.<) $4 RETURNING k.ctid",
    5,
    {TEXTOID, TEXTOID, TEXTOID, INT8OID, TIDOID}};

// Its second column: whether the row is a new one, that of a stream's first position. (The new version of one that was
// there carries the lock that this statement took.)
pg::Statement next = {
    "INSERT INTO outbox_internal.inbox_stream AS s (consumer, stream, reached) VALUES ($1, $2, $3) "
    "ON CONFLICT (consumer, stream) DO UPDATE SET reached = excluded.reached "
    "WHERE CASE WHEN $4 THEN s.reached OPERATOR(pg_catalog.<) excluded.reached "
    "ELSE s.reached OPERATOR(pg_catalog.=) (excluded.reached OPERATOR(pg_catalog.-) 1::bigint) END "
    "RETURNING s.ctid, s.xmax OPERATOR(pg_catalog.=) 0",
    4,
    {TEXTOID, TEXTOID, INT8OID, BOOLOID}};

pg::Statement next_at = {
    "UPDATE outbox_internal.inbox_stream AS s SET reached = $3 WHERE s.ctid OPERATOR(pg_catalog.=) $5 "
    "AND s.consumer OPERATOR(pg_catalog.=) $1 AND s.stream OPERATOR(pg_catalog.=) $2 "
    "AND CASE WHEN $4 THEN s.reached OPERATOR(pg_catalog.<) $3 "
    "ELSE s.reached OPERATOR(pg_catalog.=) ($3 OPERATOR(pg_catalog.-) 1::bigint) END RETURNING s.ctid, false",
    5,
    {TEXTOID, TEXTOID, INT8OID, BOOLOID, TIDOID}};

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

// A row that is updated over and over has as many versions until nobody may see the old ones: those of one transaction
// until it ends, all of them while anybody holds a snapshot. The index leads through every one, so that n calls cost n
// times n. Where it has led through many pages, the place of the last version that this session wrote is remembered,
// and the row is looked for there first, for so many calls as pay for the way. (Not always: only who comes by the index
// makes room in a page of versions that are dead.)
//
// A place is no more than a guess: the statement finds the row there by its whole key, under its snapshot, or finds
// nothing, and the index is asked.
struct Place {
  uint64 row;
  ItemPointerData at;
  int64 calls;  // that begin there
};
constexpr uint64 kPlaces = 64;
Place places[kPlaces] = {};
constexpr int64 kManyPages = 16;
constexpr int64 kCallsPerPage = 8;
// By the place, and never by a table that was small when the statement was planned.
constexpr pg::PinnedSetting kByPlace[] = {{"jit", "off"}, {"enable_tidscan", "on"}, {"enable_seqscan", "off"}};

uint64 HashOf(std::initializer_list<const text*> key, uint64 table) {
  uint64 hash = table;
  for (const text* part : key) {
    hash = hash_bytes_extended(reinterpret_cast<const unsigned char*>(VARDATA_ANY(part)),
                               static_cast<int>(VARSIZE_ANY_EXHDR(part)), hash);
  }
  return hash;
}

// As the last statement returned it.
ItemPointerData ReturnedPlace() {
  bool null = false;
  ItemPointerData at;
  memcpy(&at, DatumGetPointer(pg::ResultDatum(0, 0, &null)), sizeof(at));
  return at;
}

int64 PagesSeen() {
  return pgBufferUsage.shared_blks_hit + pgBufferUsage.shared_blks_read;
}

// Whether the row was written; `values` has room for the place behind the four of `by_key`.
bool Put(pg::Statement* by_key, pg::Statement* at_place, Datum* values, uint64 row) {
  Place* place = &places[row % kPlaces];
  if (place->row == row && place->calls > 0) {
    place->calls--;
    ItemPointerData at = place->at;
    values[4] = PointerGetDatum(&at);
    if (Run(at_place, values) > 0) {
      place->at = ReturnedPlace();
      return true;
    }
  }
  const bool planned = by_key->plan != nullptr;
  const int64 before = PagesSeen();
  if (Run(by_key, values) == 0) {
    return false;
  }
  const int64 pages = planned ? PagesSeen() - before : 0;
  if (pages >= kManyPages) {
    *place = {row, ReturnedPlace(), pages * kCallsPerPage};
  } else if (place->row == row) {
    place->calls = 0;
  }
  return true;
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
  Datum values[] = {PointerGetDatum(consumer), PointerGetDatum(source), PointerGetDatum(key), Int64GetDatum(created_at),
                    Datum(0)};
  const uint64 row = HashOf({consumer, source, key}, 0);
  const bool fresh = AsOwner(kByPlace, [&] { return Put(&newest, &newest_at, values, row); });
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
  // The first position of a stream is on disk at commit. Those behind it need not be: who goes by positions asks
  // received_to() where to go on, so what a crash has taken back comes again. Of a stream that was taken back with its
  // first position nothing is known, and whatever came then would be the first one.
  Datum values[] = {PointerGetDatum(consumer), PointerGetDatum(stream), Int64GetDatum(position), PG_GETARG_DATUM(3),
                    Datum(0)};
  const uint64 row = HashOf({consumer, stream}, 1);
  bool first = false;
  const char* answer = AsOwner(kByPlace, [&]() -> const char* {
    if (Put(&next, &next_at, values, row)) {
      first = outbox::pg::ResultBool(0, 1);
      return "next";
    }
    // (The row is locked all the same, so what is read now stays true.)
    return position <= Reached(values) ? "repeat" : "gap";
  });
  BeOnDiskAtCommit(first);
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
