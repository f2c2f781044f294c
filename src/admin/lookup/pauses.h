// The pauses, for functions that show something [P].
#pragma once

#include <string_view>
#include <vector>

#include "admin/common/query.h"

namespace outbox::admin {

struct Pause {
  int64 route_id = 0;  // 0: a destination
  Cell server;
  Cell topic;
  Cell aggregate_type;
  Cell aggregate_id;
  std::string reason;
  Cell since;  // input form of timestamptz
  std::string by;
};

std::vector<Pause> LoadPauses(Access access = Access::kRead);

// The pause that stops the whole route, or its destination; nullptr: none.
const Pause* FindRoutePause(const std::vector<Pause>& pauses, int64 route_id, const std::string& server);
// The calls that let it go, as they are typed: that of the route, of its destination, or both, with "and" in between;
// empty: neither is paused.
std::string ResumeCalls(Access access, const std::string& route);
// A pause that stops this event of the route; the whole route's is preferred.
const Pause* FindEventPause(const std::vector<Pause>& pauses, int64 route_id, const std::string& server,
                            std::string_view topic, std::string_view aggregate_type, const Cell& aggregate_id);

}  // namespace outbox::admin
