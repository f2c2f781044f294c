// Which events a reader of the log wants [-].
#pragma once

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
};

}  // namespace outbox
