// The formats outbox and payload, with and without a frame: an event becomes exactly the record of docs/wire.md, or
// value and key, or is refused with its own fault named.
#include "events.h"

using namespace outbox;
using namespace outbox::format;

using fuzz::Same;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  fuzz::Events events;
  RouteConfig config;
  config.kind = sink::Kinds()[in.Below(sink::Kinds().size())];
  config.form = static_cast<sink::RecordForm>(in.Below(3));
  const auto how = in.Take<uint8_t>();
  config.format = FindFormat((how & 2) != 0 ? "payload" : "outbox");
  if ((how & 4) != 0) {
    config.options = {{"framing", "confluent"}};
  }
  if ((how & 1) != 0) {
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
  const bool payload_alone = config.format == FindFormat("payload");
  const bool framed = !config.options.empty();
  const bool redis = config.kind == sink::FindKind("outbox_redis");

  for (uint64_t i = 1 + in.Below(3); i > 0; --i) {
    int64_t wall = 0;
    const Event event = events.Take(&in, &wall);

    std::string out;
    sink::Record record;
    Error error;
    const std::string topic(format.Topic(event));
    if (!fuzz::Formatted(&format, event, wall, &out, &record, &error)) {
      FUZZ_CHECK(error.code != "INVALID_TOPIC" || config.kind->bad_topic(topic) != nullptr);
      FUZZ_CHECK(error.code != "NO_SCHEMA_ID" || framed);
      continue;
    }

    FUZZ_CHECK(record.topic == topic && record.form == config.form);
    FUZZ_CHECK(IsNull(event.topic) || topic == event.topic);
    FUZZ_CHECK(config.kind->bad_topic(topic) == nullptr);
    if (framed && !IsNull(event.payload)) {
      FUZZ_CHECK(record.body.size() == event.payload.size() + 5 && record.body.ends_with(event.payload) &&
                 record.body[0] == '\0');
    } else if (payload_alone && redis && IsNull(record.key) && IsNull(event.payload) &&
               record.form == sink::RecordForm::kStream) {
      FUZZ_CHECK(Same(record.body, ""));
    } else {
      FUZZ_CHECK(Same(record.body, event.payload));
    }
    if (config.key == "{aggregate_id}") {
      FUZZ_CHECK(Same(record.key, event.aggregate_id));
    }
    FUZZ_CHECK(!spec->key().uses_aggregate_id() || IsNull(record.key) == IsNull(event.aggregate_id));
    FUZZ_CHECK(record.timestamp_ms == event.created_at / 1000 ||
               (record.timestamp_ms == wall / 1000 && event.created_at > wall + kMaxAheadMicros));

    if (payload_alone) {
      FUZZ_CHECK(record.fields.empty() && !record.fields_only);
      continue;
    }
    char id[kUuidTextLength];
    FormatUuid(event.id, id);
    std::vector<fuzz::Header> expected = {{"id", std::string(id, sizeof(id))},
                                          {"type", std::string(event.event_type)},
                                          {"aggregate_type", std::string(event.aggregate_type)}};
    if (!IsNull(event.content_type)) {
      expected.emplace_back(redis ? "content_type" : "content-type", event.content_type);
    }
    expected.emplace_back("created_at", std::to_string(event.created_at));
    for (const auto& [name, value] : events.headers) {
      expected.emplace_back((redis ? "h:" : "") + name, value);
    }
    FUZZ_CHECK(record.fields.size() == expected.size());
    for (size_t f = 0; f < expected.size(); ++f) {
      FUZZ_CHECK(record.fields[f].name == expected[f].first && record.fields[f].value == expected[f].second);
    }
  }
  return 0;
}
