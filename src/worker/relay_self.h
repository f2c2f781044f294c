// Who a relay worker is, and the lanes that it owns [P].
#pragma once

#include <cstdint>
#include <map>

#include "base/lane_id.h"
#include "log/progress/routes.h"
#include "pg/shared.h"
#include "relay/common/engine_types.h"
#include "sink/kind.h"

namespace outbox::worker {

struct RelaySelf {
  Oid database = InvalidOid;
  pg::DatabaseSlot* database_slot = nullptr;
  pg::WorkerSlot* worker_slot = nullptr;
  uint64_t incarnation = 0;
};

struct OwnedLane {
  log::Route route;
  relay::DestinationId destination = 0;
  const sink::SinkKind* kind = nullptr;  // of the destination, as the route was compiled for it
  bool leaving = false;
};
using OwnedLanes = std::map<LaneId, OwnedLane>;

}  // namespace outbox::worker
