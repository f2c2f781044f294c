#include "log/lanes.h"

#include "base/fault_point.h"
#include "log/lane_tables.h"
#include "log/sql.h"
#include "pg/encoding.h"
#include "pg/shared.h"
#include "pg/transaction.h"
#include "pg/worker_slot.h"

extern "C" {
#include "utils/array.h"
}

namespace outbox::log {

namespace {

// Nobody claims lanes that wait for all of their route's to be given back (see lane_change.h), nor such as a dump has
// brought, whose positions mean nothing here before outbox.adopt().
#define OUTBOX_MAY_BE_CLAIMED                                       \
  " NOT EXISTS (SELECT FROM outbox.route r WHERE r.id = f.route_id" \
  " AND r.lanes_begun IS NOT NULL AND r.common_snapshot IS NULL)"   \
  " AND f.home = outbox._home()"

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

// Elements of a text[] of the result; no NULLs are expected. Plain: the caller fills its owners from the pointers.
int ResultTexts(uint64 row, int column, char*** texts) {
  bool isnull = false;
  Datum value = ResultDatum(row, column, &isnull);
  if (isnull) {
    return 0;
  }
  Datum* elements = nullptr;
  bool* nulls = nullptr;
  int count = 0;
  deconstruct_array(DatumGetArrayTypeP(value), TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &count);
  *texts = static_cast<char**>(palloc((count + 1) * sizeof(char*)));
  for (int i = 0; i < count; i++) {
    (*texts)[i] = nulls[i] ? pstrdup("") : TextDatumGetCString(elements[i]);
  }
  return count;
}

// Events are UTF-8 once they are read, so what they are compared with and put into has to be, too.
void ReadStrings(uint64 row, int column, std::vector<std::string>* strings) {
  char** texts = nullptr;
  int count = ResultTexts(row, column, &texts);
  for (int i = 0; i < count; i++) {
    strings->emplace_back(pg::Utf8(texts[i]));
  }
}

void ReadRoute(uint64 row, RouteConfig* route) {
  route->id = ResultInt64(row, 0);
  route->name = ResultText(row, 1);
  route->server = ResultText(row, 2);
  ReadStrings(row, 3, &route->aggregate_types);
  ReadStrings(row, 4, &route->event_types);
  route->topic = pg::Utf8(ResultText(row, 5));
  route->key = pg::Utf8(ResultText(row, 6));
  route->lanes = ResultInt32(row, 7);
  char** names = nullptr;
  char** values = nullptr;
  int count = ResultTexts(row, 8, &names);
  int value_count = ResultTexts(row, 9, &values);
  for (int i = 0; i < count && i < value_count; i++) {
    route->options.emplace_back(names[i], values[i]);
  }
  bool isnull = false;
  route->converging = DatumGetBool(ResultDatum(row, 10, &isnull));
  const char* common = ResultText(row, 11);
  route->common_snapshot = common == nullptr ? "" : common;
  route->block = DatumGetBool(ResultDatum(row, 12, &isnull));
  route->max_attempts = ResultInt32(row, 13);
  route->backoff_base = ResultInt64(row, 14);
  route->backoff_cap = ResultInt64(row, 15);
  const char* reason = ResultText(row, 16);
  route->paused = reason != nullptr;
  route->pause_reason = reason == nullptr ? std::string_view() : pg::Utf8(reason);
  ReadStrings(row, 17, &route->paused_topics);
  char** types = nullptr;
  char** ids = nullptr;
  int keys = ResultTexts(row, 18, &types);
  keys = Min(keys, ResultTexts(row, 19, &ids));
  for (int i = 0; i < keys; i++) {
    route->paused_keys.emplace_back(pg::Utf8(types[i]), pg::Utf8(ids[i]));
  }
  route->moved_at = ResultInt64(row, 20);
}

void ReadLanes(std::vector<LaneId>* lanes) {
  for (uint64 row = 0; row < SPI_processed; row++) {
    lanes->push_back({ResultInt64(row, 0), ResultInt32(row, 1)});
  }
}

}  // namespace

void ListRoutes(std::vector<RouteConfig>* routes) {
  pg::InTransaction(CurrentMemoryContext, [&] {
    static Statement all = {
        "SELECT id, name, server::text, aggregate_types, event_types, topic, key, lanes,"
        " ARRAY(SELECT o.key FROM jsonb_each_text(options) o ORDER BY o.key),"
        " ARRAY(SELECT coalesce(o.value, '') FROM jsonb_each_text(options) o ORDER BY o.key),"
        " lanes_begun IS NOT NULL, common_snapshot, on_failure = 'block', max_attempts,"
        " (EXTRACT(epoch FROM backoff_base) * 1000000)::int8,"
        " (EXTRACT(epoch FROM backoff_cap) * 1000000)::int8,"
        " (SELECT z.reason FROM outbox.pause z WHERE (z.route_id = r.id AND z.topic IS NULL"
        " AND z.aggregate_type IS NULL) OR z.server = r.server ORDER BY z.paused_at LIMIT 1),"
        " ARRAY(SELECT z.topic FROM outbox.pause z WHERE z.route_id = r.id"
        " AND z.topic IS NOT NULL ORDER BY z.topic),"
        " ARRAY(SELECT z.aggregate_type FROM outbox.pause z WHERE z.route_id = r.id"
        " AND z.aggregate_type IS NOT NULL ORDER BY z.id),"
        " ARRAY(SELECT z.aggregate_id FROM outbox.pause z WHERE z.route_id = r.id"
        " AND z.aggregate_type IS NOT NULL ORDER BY z.id),"
        " coalesce((SELECT (EXTRACT(epoch FROM max(l.since)) * "
        "1000000)::int8"
        " FROM outbox.lane l WHERE l.route_id = r.id"
        " AND l.since > '-infinity'), 0)"
        " FROM outbox.route r ORDER BY id",
        0,
        {},
        nullptr};
    RunStatement(&all, nullptr);
    routes->reserve(routes->size() + SPI_processed);
    for (uint64 row = 0; row < SPI_processed; row++) {
      ReadRoute(row, &routes->emplace_back());
    }
  });
}

LaneCount CountLanes() {
  LaneCount lanes;
  pg::InTransaction(CurrentMemoryContext, [&] {
    static Statement count = {
        "SELECT count(*)::int, (count(*) FILTER (WHERE (f.owner IS NULL OR f.owner <> ALL ($1))"
        " AND" OUTBOX_MAY_BE_CLAIMED "))::int FROM outbox.lane f",
        1,
        {INT8ARRAYOID},
        nullptr};
    Datum values[] = {pg::LiveIncarnations()};
    RunStatement(&count, values);
    lanes.all = ResultInt32(0, 0);
    lanes.unowned = ResultInt32(0, 1);
  });
  return lanes;
}

void ClaimLanes(uint64_t incarnation, int limit, std::vector<LaneId>* claimed) {
  OUTBOX_FAULT_POINT("claim.before");
  size_t before = claimed->size();
  try {
    pg::InTransaction(CurrentMemoryContext, [&] {
      static Statement lock = {
          "SELECT f.route_id, f.lane FROM outbox.lane f"
          " WHERE (f.owner IS NULL OR f.owner <> ALL ($1)) AND" OUTBOX_MAY_BE_CLAIMED
          " ORDER BY f.lane, f.route_id LIMIT $2 FOR UPDATE SKIP LOCKED",
          2,
          {INT8ARRAYOID, INT8OID},
          nullptr};
      static Statement claim = {
          "UPDATE outbox.lane SET owner = $3, claimed_at = clock_timestamp()"
          " WHERE route_id = $1 AND lane = $2"
          " AND (owner IS NULL OR owner <> ALL ($4))",
          4,
          {INT8OID, INT4OID, INT8OID, INT8ARRAYOID},
          nullptr};
      Datum values[] = {pg::LiveIncarnations(), Int64GetDatum(limit)};
      OUTBOX_FAULT_POINT("claim.listed");
      RunStatement(&lock, values);
      ReadLanes(claimed);
      OUTBOX_FAULT_POINT("claim.locked");
      // Looked up again now that the rows are locked: a worker that has come since may have claimed one just before.
      Datum live = pg::LiveIncarnations();
      size_t kept = before;
      for (size_t i = before; i < claimed->size(); i++) {
        LaneId lane = (*claimed)[i];
        Datum each[] = {Int64GetDatum(lane.route_id), Int32GetDatum(lane.lane),
                        Int64GetDatum(static_cast<int64>(incarnation)), live};
        RunStatement(&claim, each);
        if (SPI_processed == 1) {
          (*claimed)[kept++] = lane;
        }
      }
      claimed->resize(kept);
      OUTBOX_FAULT_POINT("claim.uncommitted");
    });
    OUTBOX_FAULT_POINT("claim.after");
  } catch (...) {
    claimed->resize(before);  // rolled back
    throw;
  }
}

bool ReleaseLane(LaneId lane, uint64_t incarnation) {
  OUTBOX_FAULT_POINT("release.before");
  bool released = false;
  pg::InTransaction(CurrentMemoryContext, [&] {
    static Statement release = {
        "UPDATE outbox.lane SET owner = NULL, claimed_at = NULL WHERE route_id = $1"
        " AND lane = $2 AND owner = $3",
        3,
        {INT8OID, INT4OID, INT8OID},
        nullptr};
    Datum values[] = {Int64GetDatum(lane.route_id), Int32GetDatum(lane.lane),
                      Int64GetDatum(static_cast<int64>(incarnation))};
    RunStatement(&release, values);
    released = SPI_processed == 1;
  });
  return released;
}

int ReleaseLanes(uint64_t incarnation) {
  int released = 0;
  pg::InTransaction(CurrentMemoryContext, [&] {
    static Statement release = {
        "UPDATE outbox.lane SET owner = NULL, claimed_at = NULL WHERE owner = $1", 1, {INT8OID}, nullptr};
    Datum values[] = {Int64GetDatum(static_cast<int64>(incarnation))};
    RunStatement(&release, values);
    released = static_cast<int>(SPI_processed);
  });
  return released;
}

void ListOwnedLanes(uint64_t incarnation, std::vector<LaneId>* owned) {
  pg::InTransaction(CurrentMemoryContext, [&] {
    static Statement list = {
        "SELECT route_id, lane FROM outbox.lane WHERE owner = $1 ORDER BY route_id, lane", 1, {INT8OID}, nullptr};
    Datum values[] = {Int64GetDatum(static_cast<int64>(incarnation))};
    RunStatement(&list, values);
    ReadLanes(owned);
  });
}

}  // namespace outbox::log
