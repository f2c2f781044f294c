// The plain format: an event becomes exactly the record of docs/wire.md, or is refused with its own fault named.
#include <list>

#include "format/record_format.h"
#include "fuzz.h"

using namespace outbox;
using namespace outbox::format;

namespace {

constexpr int64_t kLatest = int64_t{1} << 53;  // Unix microseconds: the year 2255

// Texts with room of their own, so that a read past one of them is seen.
class Texts {
 public:
  std::string_view Keep(std::string_view text) { return texts_.emplace_back(text); }
  std::string_view KeepOrNull(fuzz::Input* in) { return in->Flag() ? Keep(in->Text()) : std::string_view(); }

 private:
  std::list<std::string> texts_;
};

using Header = std::pair<std::string, std::string>;

std::string PackHeaders(const std::vector<Header>& headers) {
  std::string packed;
  for (const auto& [name, value] : headers) {
    for (const std::string& text : {name, value}) {
      auto size = static_cast<uint32_t>(text.size());
      packed.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(text);
    }
  }
  return packed;
}

bool Same(std::string_view a, std::string_view b) {
  return a == b && IsNull(a) == IsNull(b);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  Texts texts;
  RouteConfig config;
  config.kind = sink::Kinds()[in.Below(sink::Kinds().size())];
  config.form = static_cast<sink::RecordForm>(in.Below(3));
  if (in.Flag()) {
    config.topic = in.Text();
  }
  if (in.Flag()) {
    config.key = in.Text();
  }
  TemplateError template_error;
  std::shared_ptr<const RouteSpec> spec = RouteSpec::Make(config, &template_error);
  if (spec == nullptr) {
    return 0;
  }
  RecordFormat format(spec);
  const bool redis = config.kind == sink::FindKind("outbox_redis");

  for (uint64_t i = 1 + in.Below(3); i > 0; --i) {
    Event event;
    event.created_at = static_cast<int64_t>(in.Below(kLatest));
    const auto wall = static_cast<int64_t>(in.Below(kLatest));
    event.id = in.Take<Uuid>();
    event.aggregate_type = texts.Keep(in.Text());
    event.aggregate_id = texts.KeepOrNull(&in);
    event.event_type = texts.Keep(in.Text());
    event.payload = texts.KeepOrNull(&in);
    event.content_type = texts.KeepOrNull(&in);
    event.topic = texts.KeepOrNull(&in);
    std::vector<Header> headers;
    for (uint64_t n = in.Below(4); n > 0; --n) {
      std::string name(in.Text());
      headers.emplace_back(std::move(name), in.Text());
    }
    if (!headers.empty()) {
      event.headers.packed = texts.Keep(PackHeaders(headers));
    }

    std::string out = "before";
    Error error;
    const std::string topic(format.Topic(event));
    if (!format.Append(event, wall, &out, &error)) {
      FUZZ_CHECK(out == "before" && error.error_class == ErrorClass::kMessage);
      FUZZ_CHECK(!error.code.empty() && fuzz::IsUtf8(error.message));
      FUZZ_CHECK(error.code != "INVALID_TOPIC" || config.kind->bad_topic(topic) != nullptr);
      continue;
    }
    FUZZ_CHECK(out.starts_with("before"));
    sink::RecordReader reader(std::string_view(out).substr(6));
    sink::Record record;
    FUZZ_CHECK(reader.Next(&record));
    sink::Record none;
    FUZZ_CHECK(!reader.Next(&none) && reader.ok());

    FUZZ_CHECK(record.topic == topic && record.form == config.form);
    FUZZ_CHECK(IsNull(event.topic) || topic == event.topic);
    FUZZ_CHECK(config.kind->bad_topic(topic) == nullptr);
    FUZZ_CHECK(Same(record.body, event.payload));
    if (config.key == "{aggregate_id}") {
      FUZZ_CHECK(Same(record.key, event.aggregate_id));
    }
    FUZZ_CHECK(!spec->key().uses_aggregate_id() || IsNull(record.key) == IsNull(event.aggregate_id));
    FUZZ_CHECK(record.timestamp_ms == event.created_at / 1000 ||
               (record.timestamp_ms == wall / 1000 && event.created_at > wall + kMaxAheadMicros));

    char id[kUuidTextLength];
    FormatUuid(event.id, id);
    std::vector<Header> expected = {{"id", std::string(id, sizeof(id))},
                                    {"type", std::string(event.event_type)},
                                    {"aggregate_type", std::string(event.aggregate_type)}};
    if (!IsNull(event.content_type)) {
      expected.emplace_back(redis ? "content_type" : "content-type", event.content_type);
    }
    expected.emplace_back("created_at", std::to_string(event.created_at));
    for (const auto& [name, value] : headers) {
      expected.emplace_back((redis ? "h:" : "") + name, value);
    }
    FUZZ_CHECK(record.fields.size() == expected.size());
    for (size_t f = 0; f < expected.size(); ++f) {
      FUZZ_CHECK(record.fields[f].name == expected[f].first && record.fields[f].value == expected[f].second);
    }
  }
  return 0;
}
