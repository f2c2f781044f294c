#include "admin/show/side_trouble.h"

#include <algorithm>

#include "relay/common/side_log.h"

namespace outbox::admin {

SideTrouble TroubleOf(const LaneRecord& lane, const SideRecord& side, const std::string& topic,
                      const OwnedLaneView* view, const std::vector<Pause>& pauses) {
  const auto pause = std::find_if(pauses.begin(), pauses.end(), [&](const Pause& one) {
    return one.topic && one.route_id == lane.route_id && *one.topic == topic;
  });
  if (pause != pauses.end()) {
    return {true, ErrorClassName(ErrorClass::kTopic), relay::kPausedCode, "the topic is paused", pause->since};
  }
  // By the name that its events are sent under now: the route's template has changed since the topic left.
  if (view != nullptr && view->owned && view->state == LaneState::kPaused &&
      FindRoutePause(pauses, lane.route_id, lane.server) == nullptr) {
    return {true, ErrorClassName(ErrorClass::kTopic), relay::kPausedCode, "the topic is paused",
            UnixMicrosCell(view->error_since_unix)};
  }
  const bool resumed = side.error_code == relay::kPausedCode;
  const bool told = view != nullptr && view->owned && !view->trouble.empty();
  // What its destination is in meanwhile is not why it stays away.
  if (told && (resumed || view->trouble.error_class == ErrorClass::kTopic)) {
    return {false, ErrorClassName(view->trouble.error_class), view->trouble.code, view->trouble.message,
            UnixMicrosCell(view->error_since_unix)};
  }
  return resumed ? SideTrouble()
                 : SideTrouble{false, side.error_class, side.error_code, side.error_message, side.since};
}

}  // namespace outbox::admin
