#include "format/record_format.h"

#include <algorithm>
#include <new>

namespace outbox::format {

namespace {

// Instead of what is wrong with a name: nothing is, but the route does not know it.
constexpr const char* kUnknown = "is not among those that the route knows (its option topics_known)";

// An encoder keeps its memory from one event to the next; after a larger record than this it is made anew.
constexpr size_t kMostKept = size_t{8} << 20;

}  // namespace

RecordFormat::RecordFormat(std::shared_ptr<const RouteSpec> spec)
    : spec_(std::move(spec)),
      encoder_(spec_->format().make(spec_->use())),
      topic_of_(spec_->topic(), [this](std::string_view topic) { return BadTopic(topic); }) {}

const char* RecordFormat::BadTopic(std::string_view topic) const {
  const char* bad = spec_->kind().bad_topic(topic);
  return bad != nullptr || spec_->KnowsTopic(topic) ? bad : kUnknown;
}

std::string_view RecordFormat::Key(const Event& event) {
  const Template& key = spec_->key();
  if (key.is_aggregate_id() || (key.uses_aggregate_id() && IsNull(event.aggregate_id))) {
    return event.aggregate_id;
  }
  key_scratch_.clear();
  key.Expand(event.aggregate_type, event.aggregate_id, event.event_type, &key_scratch_);
  return key_scratch_;
}

// A format takes a multiple of the payload. Where that is not to be had, one event is in trouble and not the process,
// for which the next one would have to try the same.
bool RecordFormat::Append(const Event& event, int64_t wall_micros, std::string* out, Error* error) {
  try {
    const size_t before = out->size();
    const bool appended = AppendRecord(event, wall_micros, out, error);
    if (out->size() - before > kMostKept) {
      encoder_ = spec_->format().make(spec_->use());
    }
    return appended;
  } catch (const std::bad_alloc&) {
    encoder_ = spec_->format().make(spec_->use());  // the old one was interrupted, and may hold what is missing
    *error = {ErrorClass::kSolo, "OUT_OF_MEMORY",
              "the relay worker does not get the memory to make a record of the event"};
    return false;
  }
}

bool RecordFormat::AppendRecord(const Event& event, int64_t wall_micros, std::string* out, Error* error) {
  const auto [topic, bad] = topic_of_.Judged(event);
  record_.topic = topic;
  if (bad == kUnknown) {
    *error = {ErrorClass::kMessage, "TOPIC_NOT_KNOWN", "topic \"" + std::string(record_.topic) + "\" " + kUnknown};
    return false;
  }
  if (bad != nullptr) {
    *error = {ErrorClass::kMessage, "INVALID_TOPIC", std::string("topic name ") + bad};
    return false;
  }
  // What a delayed event is told to wait is no part of its age: brokers refuse and delete by this time.
  const int64_t time = std::max(event.created_at, event.deliver_at);
  record_.timestamp_ms = (time > wall_micros + kMaxAheadMicros ? wall_micros : time) / 1000;
  record_.form = spec_->form();
  record_.fields_only = false;
  record_.partition = sink::Record::kByKey;
  record_.key = Key(event);
  record_.body = event.payload;
  record_.fields.clear();
  if (!encoder_->Encode(event, &record_, error)) {
    return false;
  }
  if (!sink::PackRecord(record_, out)) {
    *error = {
        ErrorClass::kMessage, "RECORD_TOO_LARGE",
        "event does not fit a record: in this format it has more than 448 MB, or a name of more than 65535 bytes"};
    return false;
  }
  return true;
}

}  // namespace outbox::format
