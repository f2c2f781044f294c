// What is in the way of a topic that has left its lane, as it is now [P]. What side_topic has is why it left: one that
// was paused then may be in trouble since it was resumed, and one that was in trouble may be paused since.
#pragma once

#include <string>
#include <vector>

#include "admin/lookup/pauses.h"
#include "admin/lookup/route_lanes.h"
#include "admin/lookup/shared_views.h"

namespace outbox::admin {

struct SideTrouble {
  bool paused = false;      // then the rest says so, too
  std::string error_class;  // empty, and the rest: nothing is known to be in its way
  std::string error_code;
  std::string error_message;
  Cell since;

  std::string text() const { return error_code + ": " + error_message; }
};

// `topic`: one of the side lane's, in the database's encoding; `view`: of the side lane, may be nullptr.
SideTrouble TroubleOf(const LaneRecord& lane, const SideRecord& side, const std::string& topic,
                      const OwnedLaneView* view, const std::vector<Pause>& pauses);

}  // namespace outbox::admin
