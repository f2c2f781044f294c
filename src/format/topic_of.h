// Which topic an event goes to [-]: its own, or what a template makes of it, and what is wrong with that. Answers are
// cached by aggregate and event type, so that asking costs two string comparisons for most events. Single-threaded.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/event.h"
#include "format/template.h"

namespace outbox::format {

class TopicOf {
 public:
  // What is wrong with a topic, a literal; nullptr: nothing. The same text has the same answer for as long as this
  // lives.
  using Judge = std::function<const char*(std::string_view topic)>;
  struct Answer {
    std::string_view topic;     // valid until the next call
    const char* bad = nullptr;  // what Judge says of it
  };

  explicit TopicOf(Template topic, Judge judge = nullptr) : template_(std::move(topic)), judge_(std::move(judge)) {}

  // `own`: the event's own topic, or NULL.
  Answer Judged(std::string_view aggregate_type, std::string_view aggregate_id, std::string_view event_type,
                std::string_view own);
  Answer Judged(const Event& event) {
    return Judged(event.aggregate_type, event.aggregate_id, event.event_type, event.topic);
  }

  std::string_view Resolve(std::string_view aggregate_type, std::string_view aggregate_id, std::string_view event_type,
                           std::string_view own) {
    return Judged(aggregate_type, aggregate_id, event_type, own).topic;
  }
  std::string_view Resolve(const Event& event) { return Judged(event).topic; }

 private:
  struct Known {
    std::string topic;
    const char* bad = nullptr;
  };
  static constexpr size_t kMaxCached = 4096;  // event types made of free text must not eat the memory

  Answer Ask(std::string_view topic) const { return {topic, judge_ == nullptr ? nullptr : judge_(topic)}; }

  Template template_;
  Judge judge_;
  std::unordered_map<std::string, Known> cache_;  // by both types
  std::string last_type_;                         // the pair that last_ answers
  std::string last_event_type_;
  const Known* last_ = nullptr;
  std::string lookup_;
  std::string scratch_;
};

}  // namespace outbox::format
