// What the parts of one lane have in common [-]. Owned by the lane, and outlives its parts.
#pragma once

#include <cstdint>
#include <memory>

#include "base/lane_id.h"
#include "format/record_format.h"
#include "relay/common/call_retry.h"
#include "relay/common/lane_filter.h"
#include "relay/common/lane_log.h"
#include "relay/common/meter.h"
#include "relay/destination/destination.h"
#include "relay/lane/pipeline.h"
#include "relay/parked/parked_queue.h"

namespace outbox::relay {

struct LaneContext {
  const LaneId id;
  const uint32_t flow;
  const std::shared_ptr<LaneFilter> filter;  // outlives the log
  const std::unique_ptr<LaneLog> log;
  const std::shared_ptr<ParkedQueue> parked;
  Destination* const destination;
  std::unique_ptr<format::RecordFormat> format;  // of the newest spec
  Pipeline pipeline;
  CallRetry log_retry;  // of all calls of the log and of the parked table, but saving
  Meter meter = {};

  bool LogReady(const TurnContext& turn) const { return log_retry.Ready(turn.now); }
  const format::RouteSpec& spec() const { return format->spec(); }
  bool is_side() const { return id.side != 0; }
  // The parked queue, if this lane is the one that steps it; else nullptr.
  ParkedQueue* pump() const { return is_side() ? nullptr : parked.get(); }
};

}  // namespace outbox::relay
