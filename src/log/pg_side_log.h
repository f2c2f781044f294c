// relay::SideLog over outbox_internal.side_lane and outbox_internal.side_topic [P behind, no Postgres type in sight]:
// topics that have left one lane, for its owner. For use in a relay worker only, like PgLaneLog.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/lane_id.h"
#include "parked/erasures.h"
#include "relay/common/side_log.h"

namespace outbox::log {

class PgLaneLog;

class PgSideLog final : public relay::SideLog {
 public:
  // `lanes`: how many the route has, as for PgLaneLog. `lane_log`: the lane's own; outlives this object.
  PgSideLog(const LaneId& lane, int lanes, uint64_t incarnation, const PgLaneLog* lane_log,
            const parked::Erasures* erasures)
      : lane_(lane), lanes_(lanes), incarnation_(incarnation), lane_log_(lane_log), erasures_(erasures) {}

  // Fails with CONFIG_CHANGED if the lane was moved since its position was read, where topics had left it at the other:
  // a topic would leave it there with the position that it had before.
  Status LoadSides(std::vector<relay::SideLane>* sides) override;
  Status Fork(const relay::SideLane& side, const Position& position, std::span<const relay::Parking> parked,
              int64_t* next_due) override;
  Status Rejoin(int32_t side, const Position& position) override;
  std::unique_ptr<relay::LaneLog> OpenSide(int32_t side, const EventFilter* filter) override;

 private:
  const LaneId lane_;
  const int lanes_;
  const uint64_t incarnation_;
  const PgLaneLog* const lane_log_;
  const parked::Erasures* const erasures_;
  int64_t since_ = 0;           // outbox_internal.lane.since as of LoadSides
  std::vector<uint64_t> keys_;  // scratch
};

}  // namespace outbox::log
