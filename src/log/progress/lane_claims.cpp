#include "log/progress/lane_claims.h"

#include <algorithm>

#include "base/fault_point.h"
#include "log/progress/lane_tables.h"
#include "log/progress/used_xids.h"
#include "pg/shared.h"
#include "pg/sql.h"
#include "pg/transaction.h"
#include "pg/worker_slot.h"

extern "C" {
#include "utils/array.h"
}

namespace outbox::log {

using namespace pg::sql;

namespace {

void ReadLanes(std::vector<LaneId>* lanes) {
  for (uint64 row = 0; row < SPI_processed; row++) {
    lanes->push_back({ResultInt64(row, 0), ResultInt32(row, 1)});
  }
}

}  // namespace

LaneCount CountLanes() {
  LaneCount lanes;
  pg::InTransaction(CurrentMemoryContext, [&] {
    // Every worker asks every second, also where there are thousands: whether they may be claimed is asked where any is
    // without an owner.
    static Statement count = {
        "SELECT count(*)::int, (count(*) FILTER (WHERE owner IS NULL OR owner <> ALL ($1)))::int"
        " FROM outbox_internal.lane",
        1,
        {INT8ARRAYOID},
        nullptr};
    static Statement claimable = {
        "SELECT count(*)::int FROM outbox_internal.claimable_lane f WHERE f.owner IS NULL OR f.owner <> ALL ($1)",
        1,
        {INT8ARRAYOID},
        nullptr};
    Datum values[] = {pg::LiveIncarnations()};
    RunStatement(&count, values);
    lanes.all = ResultInt32(0, 0);
    lanes.unowned = ResultInt32(0, 1);
    if (lanes.unowned > 0) {
      RunStatement(&claimable, values);
      lanes.unowned = ResultInt32(0, 0);
    }
  });
  return lanes;
}

void ClaimLanes(uint64_t incarnation, int limit, std::vector<LaneId>* claimed) {
  OUTBOX_FAULT_POINT("claim.before");
  RefuseUsedXids();
  size_t before = claimed->size();
  try {
    pg::InTransaction(CurrentMemoryContext, [&] {
      static Statement lock = {
          "SELECT f.route_id, f.lane FROM outbox_internal.claimable_lane f WHERE f.owner IS NULL OR f.owner <> ALL ($1)"
          " ORDER BY f.lane, f.route_id LIMIT $2 FOR UPDATE SKIP LOCKED",
          2,
          {INT8ARRAYOID, INT8OID},
          nullptr};
      static Statement claim = {
          "UPDATE outbox_internal.lane SET owner = $3, claimed_at = clock_timestamp()"
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
      // Looked up again now that the rows are locked: a worker that started since may have claimed one just before.
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

bool ReleaseLanes(uint64_t incarnation, std::vector<LaneId>* lanes, const std::set<LaneId>& unanswered) {
  if (lanes->empty()) {
    return true;
  }
  OUTBOX_FAULT_POINT("release.before");
  const size_t count = std::min(lanes->size(), kReleased);
  std::vector<LaneId> held;
  pg::InTransaction(CurrentMemoryContext, [&] {
    static Statement release = {
        "WITH free AS (SELECT l.route_id, l.lane, k.unanswered"
        " FROM ROWS FROM (unnest($1), unnest($2), unnest($4)) k(route_id, lane, unanswered)"
        " JOIN outbox_internal.lane l USING (route_id, lane) WHERE l.owner = $3 FOR NO KEY UPDATE OF l SKIP LOCKED)"
        " UPDATE outbox_internal.lane l SET owner = NULL, claimed_at = CASE WHEN f.unanswered THEN l.claimed_at END"
        " FROM free f WHERE l.route_id = f.route_id AND l.lane = f.lane",
        4,
        {INT8ARRAYOID, INT4ARRAYOID, INT8OID, BOOLARRAYOID},
        nullptr};
    static Statement left = {
        "SELECT l.route_id, l.lane FROM ROWS FROM (unnest($1), unnest($2)) k(route_id, lane)"
        " JOIN outbox_internal.lane l USING (route_id, lane) WHERE l.owner = $3",
        3,
        {INT8ARRAYOID, INT4ARRAYOID, INT8OID},
        nullptr};
    Column routes(count);
    Column numbers(count);
    Column doubtful(count);
    for (size_t i = 0; i < count; i++) {
      routes.Add(Int64GetDatum((*lanes)[i].route_id));
      numbers.Add(Int32GetDatum((*lanes)[i].lane));
      doubtful.Add(BoolGetDatum(unanswered.contains((*lanes)[i])));
    }
    Datum values[] = {routes.Array(INT8OID), numbers.Array(INT4OID), Int64GetDatum(static_cast<int64>(incarnation)),
                      doubtful.Array(BOOLOID)};
    RunStatement(&release, values);
    RunStatement(&left, values);
    ReadLanes(&held);
  });
  lanes->erase(lanes->begin(), lanes->begin() + static_cast<std::ptrdiff_t>(count));
  lanes->insert(lanes->end(), held.begin(), held.end());  // behind those whose turn has not come
  return held.empty();
}

}  // namespace outbox::log
