// Events as records of a route [-]: what all formats have in common, and the encoder of the route's own (format.h).
//
// One object per lane: it holds the spec, scratch memory and the cache of expanded topics. Not shared between threads.
// Apart from the first event of a (aggregate type, event type) pair, formatting allocates nothing but what `out` grows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/event.h"
#include "base/status.h"
#include "format/format.h"
#include "format/route_spec.h"
#include "format/topic_of.h"
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
  // does not fit a record. Where there is not the memory for its record, *error is of class kSolo: that may be
  // another's fault, and later there may be.
  bool Append(const Event& event, int64_t wall_micros, std::string* out, Error* error);

  // The topic that Append uses. Valid until the next call of either.
  std::string_view Topic(const Event& event) { return topic_of_.Resolve(event); }

  const RouteSpec& spec() const { return *spec_; }

 private:
  bool AppendRecord(const Event& event, int64_t wall_micros, std::string* out, Error* error);
  // What is wrong with it; nullptr: nothing.
  const char* BadTopic(std::string_view topic) const;
  std::string_view Key(const Event& event);

  std::shared_ptr<const RouteSpec> spec_;
  std::unique_ptr<Encoder> encoder_;
  TopicOf topic_of_;
  std::string key_scratch_;
  sink::Record record_;
};

}  // namespace outbox::format
