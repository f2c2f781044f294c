#include "log/pg_side_log.h"

#include <algorithm>

#include "base/fault_point.h"
#include "days/with_day_table.h"
#include "log/pg_lane_log.h"
#include "log/progress/lane_tables.h"
#include "log/progress/side_rows.h"
#include "log/window/row.h"
#include "parked/statements.h"
#include "pg/sql.h"
#include "pg/wall.h"

namespace outbox::log {

using namespace pg::sql;

Status PgSideLog::LoadSides(std::vector<relay::SideLane>* sides) {
  sides->clear();
  OUTBOX_FAULT_POINT("sides.load");
  Status status = TryInTransaction([&] {
    since_ = ReadSince(lane_);
    ReadSides(lane_, sides);
  });
  if (status.ok() && since_ != lane_log_->since()) {
    return Status(ErrorClass::kInternal, "CONFIG_CHANGED",
                  "the lane was put somewhere else since its position was read");
  }
  return status;
}

Status PgSideLog::Fork(const relay::SideLane& side, const Position& position, std::span<const relay::Parking> parked,
                       int64_t* next_due) {
  bool owner = true;
  keys_.clear();
  for (const relay::Parking& parking : parked) {
    if (parking.state == relay::ParkedState::kBlocked && !parking.paused && parking.order_key != 0) {
      keys_.push_back(parking.order_key);
    }
  }
  std::sort(keys_.begin(), keys_.end());
  keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
  const parked::ParkedOwner me{lane_, incarnation_};
  LaneId side_lane = lane_;
  side_lane.side = side.side;
  Status status = days::TryWithDayTable(days::DayTableKind::kProgress, [&](int64 at) {
    OUTBOX_FAULT_THROW("fork.before");
    bool block = false;
    owner = parked::LockLane(me, since_) && parked::OwnsLane(me, &block);
    if (!owner) {
      return;
    }
    // Its beginning is kept for when it is gone: after a loss of what it has delivered a reader goes back to there at
    // most.
    AppendProgress(side_lane, incarnation_, since_, at, position);
    PutSide(lane_, side, position);
    if (!parked.empty()) {
      if (!parked::InsertParked(me, parked)) {
        ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE), errmsg("the lane was taken away meanwhile")));
      }
      erasures_->RefuseErased();
      parked::PromoteHeads(lane_.route_id, block, keys_, pg::BelievedWall(), parked::kNoFronts);
    }
    *next_due = NextDue(me, {}, {});
    OUTBOX_FAULT_THROW("fork.uncommitted");
  });
  OUTBOX_FAULT_POINT("fork.after");
  return std::move(status).OfOwner(owner);
}

Status PgSideLog::Rejoin(int32_t side, const Position& position) {
  bool owner = true;
  LaneId side_lane = lane_;
  side_lane.side = side;
  OUTBOX_FAULT_POINT("rejoin.before");
  Status status = days::TryWithDayTable(days::DayTableKind::kProgress, [&](int64 at) {
    owner = AppendProgress(lane_, incarnation_, since_, at, position) != Appended::kLost;
    if (owner) {
      // For status(): from here on it had nothing in its hands.
      AppendProgress(side_lane, incarnation_, since_, at, position, {}, {}, nullptr, {}, true);
      DropSide(lane_, side);
    }
    OUTBOX_FAULT_THROW("rejoin.uncommitted");
  });
  OUTBOX_FAULT_POINT("rejoin.after");
  return std::move(status).OfOwner(owner);
}

std::unique_ptr<relay::LaneLog> PgSideLog::OpenSide(int32_t side, const EventFilter* filter) {
  LaneId id = lane_;
  id.side = side;
  return std::make_unique<PgLaneLog>(id, lanes_, incarnation_, filter);
}

}  // namespace outbox::log
