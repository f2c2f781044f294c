// Events as records of a route [-]: what all formats have in common, and the encoder of the route's own (format.h).
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
#include "format/format.h"
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
  // for another kind of destination), one that the route does not know, if its format cannot carry the event, or it
  // does not fit a record.
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

  std::shared_ptr<const RouteSpec> spec_;
  std::unique_ptr<Encoder> encoder_;
  std::unordered_map<std::string, Topics> topics_;  // by "aggregate_type \0 event_type"
  std::string last_type_;                           // the pair that last_ answers
  std::string last_event_type_;
  const Topics* last_ = nullptr;
  std::string lookup_;
  std::string topic_scratch_;
  std::string key_scratch_;
  sink::Record record_;
};

}  // namespace outbox::format
