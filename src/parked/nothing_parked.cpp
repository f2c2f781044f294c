#include "parked/nothing_parked.h"

#include <algorithm>

#include "pg/sql.h"

namespace outbox::parked {

using namespace pg::sql;

namespace {

// A route's oldest parked event comes by index, however many there are; so does that there is none.
void ReadLanes(uint64_t incarnation, std::vector<LaneId>* lanes) {
  static Statement read = {
      "SELECT l.route_id, l.lane FROM outbox_internal.lane l WHERE l.owner = $1 AND l.route_id NOT IN"
      " (SELECT r.id FROM outbox.route r WHERE"
      " (SELECT true FROM outbox_internal.parked p WHERE p.route_id = r.id ORDER BY p.created_at LIMIT 1))",
      1,
      {INT8OID},
      nullptr};
  Datum values[] = {Int64GetDatum(static_cast<int64>(incarnation))};
  RunStatement(&read, values);
  for (uint64 row = 0; row < SPI_processed; row++) {
    lanes->push_back({ResultInt64(row, 0), ResultInt32(row, 1)});
  }
}

}  // namespace

bool NothingParked::For(const LaneId& lane) {
  if (!known_ || known_of_ != parked_here) {
    known_of_ = parked_here;
    lanes_.clear();
    if (!TryInTransaction([&] { ReadLanes(incarnation_, &lanes_); }).ok()) {
      known_ = false;
      return false;
    }
    std::sort(lanes_.begin(), lanes_.end());
    known_ = true;
  }
  return std::binary_search(lanes_.begin(), lanes_.end(), lane);
}

}  // namespace outbox::parked
