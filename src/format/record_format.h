// The record format [-]: event -> packed record, to the letter of the table "On the wire" in the README. A promise to
// consumers: names, order and bytes never change.
//
//   fields:  id, type, aggregate_type, [content-type], created_at, then the user's headers
//
// What the content type's field is called and what stands before a user's header differs by kind (SinkKind). Key and
// payload are the sink's.
//
// One object per lane: it holds the spec, scratch memory and the cache of expanded topics. Not shared between threads.
// Apart from the first event of a (aggregate type, event type) pair, formatting allocates nothing but what `out` grows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/event.h"
#include "base/status.h"
#include "format/route_spec.h"
#include "sink/record.h"

namespace outbox::format {

// Records dated further ahead of the wall clock than this carry "now": brokers refuse timestamps from the future.
inline constexpr int64_t kMaxAheadMicros = int64_t{600} * 1000 * 1000;

class RecordFormat {
 public:
  explicit RecordFormat(std::shared_ptr<const RouteSpec> spec);
  RecordFormat(const RecordFormat&) = delete;
  RecordFormat& operator=(const RecordFormat&) = delete;

  // Appends the packed record of `event` to *out. Returns false, appends nothing and fills *error (class kMessage: it
  // is the event's own fault) if the event has no legal topic (a template over free text, or an explicit topic meant
  // for another kind of destination), one that the route does not know, or does not fit a record.
  bool Append(const Event& event, int64_t wall_micros, std::string* out, Error* error);

  // The topic that Append uses. Valid until the next call of either.
  std::string_view Topic(const Event& event);

  const RouteSpec& spec() const { return *spec_; }

 private:
  struct Topics {
    std::string text;
    const char* bad = nullptr;
  };
  // What is wrong with it; nullptr: nothing.
  const char* BadTopic(std::string_view topic) const;
  const Topics& CachedTopic(const Event& event);
  std::string_view Resolve(const Event& event, const char** bad);
  std::string_view Key(const Event& event);
  void AddUserHeaders(const Event& event);

  std::shared_ptr<const RouteSpec> spec_;
  std::unordered_map<std::string, Topics> topics_;  // by "aggregate_type \0 event_type"
  std::string last_type_;                           // the pair that last_ answers
  std::string last_event_type_;
  const Topics* last_ = nullptr;
  std::string lookup_;
  std::string topic_scratch_;
  std::string key_scratch_;
  std::string names_;  // of the current event's headers, with the prefix of its kind
  sink::Record record_;
};

}  // namespace outbox::format
