// `outbox`: the format of docs/wire.md, to the letter. A promise to consumers: names, order and bytes never change.
//
//   fields:  id, type, aggregate_type, [content-type], created_at, then the user's headers
//
// What the content type's field is called and what stands before a user's header differs by kind (SinkKind). Key and
// payload are the sink's.
#include <charconv>

#include "format/format.h"
#include "format/framing.h"

namespace outbox::format {

namespace {

class OutboxEncoder final : public Encoder {
 public:
  explicit OutboxEncoder(const sink::SinkKind& kind)
      : content_type_name_(kind.content_type_name), header_prefix_(kind.header_prefix) {}

  bool Encode(const Event& event, sink::Record* record, Error*) override {
    FormatUuid(event.id, id_);
    const char* created_at_end = std::to_chars(created_at_, std::end(created_at_), event.created_at).ptr;
    std::vector<sink::Field>& fields = record->fields;
    sink::AddField("id", {id_, sizeof(id_)}, &fields);
    sink::AddField("type", event.event_type, &fields);
    sink::AddField("aggregate_type", event.aggregate_type, &fields);
    if (!IsNull(event.content_type)) {
      sink::AddField(content_type_name_, event.content_type, &fields);
    }
    sink::AddField("created_at", {created_at_, static_cast<size_t>(created_at_end - created_at_)}, &fields);
    AddUserHeaders(event, &fields);
    return true;
  }

 private:
  void AddUserHeaders(const Event& event, std::vector<sink::Field>* fields) {
    if (event.headers.packed.empty()) {
      return;
    }
    if (header_prefix_.empty()) {
      event.headers.ForEach(
          [&](std::string_view name, std::string_view value) { sink::AddField(name, value, fields); });
      return;
    }
    // Views of the names are taken, so they must not move. Each header has 8 bytes of lengths there, and its name.
    const size_t packed = event.headers.packed.size();
    names_.clear();
    names_.reserve(packed + packed / 8 * header_prefix_.size());
    event.headers.ForEach([&](std::string_view name, std::string_view value) {
      const size_t start = names_.size();
      names_.append(header_prefix_).append(name);
      sink::AddField(std::string_view(names_).substr(start), value, fields);
    });
  }

  const std::string_view content_type_name_;
  const std::string_view header_prefix_;
  char id_[kUuidTextLength];
  char created_at_[20];
  std::string names_;  // of the current event's headers, with the prefix
};

constexpr sink::RouteOption kOptions[] = {kFramingOption};

}  // namespace

constinit const Format kOutboxFormat = {
    .name = "outbox",
    .options = kOptions,
    .make = [](const Use& use) { return WithFraming(use, std::make_unique<OutboxEncoder>(*use.kind)); },
};

}  // namespace outbox::format
