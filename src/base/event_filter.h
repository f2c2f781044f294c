// Which events a reader of the log wants [-].
#pragma once

#include <cstdint>
#include <string_view>

#include "base/uuid.h"

namespace outbox {

// Which events a lane wants. The log asks before it copies an event's bytes.
class EventFilter {
 public:
  virtual ~EventFilter() = default;
  // `aggregate_id` may be NULL (data() == nullptr); events without a key are spread over lanes by `id`. `topic` is the
  // event's own, NULL where the route's template says it. The answer may change between two calls: the lane asks again
  // about what was read under an older one.
  virtual bool Wants(std::string_view aggregate_type, std::string_view aggregate_id, std::string_view event_type,
                     const Uuid& id, std::string_view topic) const = 0;

  // What never changes, for a caller that asks for many lanes at once: false where Wants() is false of all events of
  // these types.
  virtual bool WantsTypes(std::string_view aggregate_type, std::string_view event_type) const {
    return static_cast<void>(aggregate_type), static_cast<void>(event_type), true;
  }
  // Which lane of how many: Wants() is false of the events of the others, as format::LaneOf tells them.
  struct Share {
    uint32_t lane = 0;
    uint32_t lanes = 1;
  };
  virtual Share share() const { return {}; }
  // +1 with every change of the answers.
  virtual uint64_t version() const { return 0; }
};

}  // namespace outbox
