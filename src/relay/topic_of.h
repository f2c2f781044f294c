// Which topic an event goes to, before it is formatted [-]: its own, or what a template makes of it. Answers are cached
// by aggregate and event type, so that asking costs two string comparisons for most events. Single-threaded.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "base/event.h"
#include "format/template.h"

namespace outbox::relay {

class TopicOf {
 public:
  explicit TopicOf(format::Template topic) : template_(std::move(topic)) {}

  // Valid until the next call. `own`: the event's own topic, or NULL.
  std::string_view Resolve(std::string_view aggregate_type, std::string_view aggregate_id, std::string_view event_type,
                           std::string_view own);
  std::string_view Resolve(const Event& event) {
    return Resolve(event.aggregate_type, event.aggregate_id, event.event_type, event.topic);
  }

 private:
  static constexpr size_t kMaxCached = 4096;  // event types made of free text must not eat the memory

  format::Template template_;
  std::unordered_map<std::string, std::string> cache_;  // by "aggregate_type \0 event_type"
  std::string last_type_;                               // the pair that last_ answers
  std::string last_event_type_;
  const std::string* last_ = nullptr;
  std::string lookup_;
  std::string scratch_;
};

}  // namespace outbox::relay
