// The format of Debezium's outbox event router, with any options that a route can have together: what is JSON is JSON,
// the payload is in it, expanded or not, and what is refused has the fault that is named.
#include <algorithm>

#include "events.h"
#include "json.h"

using namespace outbox;
using namespace outbox::format;

namespace {

// One of several values, or none.
void Choose(fuzz::Input* in, RouteConfig* config, const char* name, std::initializer_list<const char*> values) {
  const uint64_t which = in->Below(values.size() + 1);
  if (which < values.size()) {
    config->options.emplace_back(name, values.begin()[which]);
  }
}

std::string Option(const RouteConfig& config, std::string_view name) {
  const std::string_view value = sink::RouteOptionValue(config.options, name);
  return std::string(value.data() == nullptr ? "" : value);
}

// Whether the second part of one of the placements is that.
bool HasEnvelope(std::string_view placements) {
  constexpr std::string_view kPlace = "envelope";
  while (!placements.empty()) {
    const std::string_view one = placements.substr(0, placements.find(','));
    placements.remove_prefix(std::min(one.size() + 1, placements.size()));
    const size_t at = one.find(':');
    const std::string_view place =
        at == std::string_view::npos ? "" : one.substr(at + 1, one.find(':', at + 1) - at - 1);
    const size_t first = place.find_first_not_of(" \t\n");
    if (first != std::string_view::npos && place.substr(first, place.find_last_not_of(" \t\n") + 1 - first) == kPlace) {
      return true;
    }
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  fuzz::Events events;
  RouteConfig config;
  config.kind = sink::Kinds()[in.Below(sink::Kinds().size())];
  config.format = FindFormat("debezium");
  config.topic = "t";
  Choose(&in, &config, "table.expand.json.payload", {"true", "false"});
  Choose(&in, &config, "table.json.payload.null.behavior", {"ignore", "optional_bytes"});
  Choose(&in, &config, "table.json.payload.empty.array.behavior", {"ignore", "optional_string"});
  Choose(&in, &config, "route.tombstone.on.empty.payload", {"true", "false"});
  Choose(&in, &config, "key.converter", {"json", "string"});
  Choose(&in, &config, "value.converter", {"json", "string"});
  Choose(&in, &config, "header.converter", {"json", "string"});
  Choose(&in, &config, "event.headers", {"all", "placed"});
  Choose(&in, &config, "message.format", {"compact", "extended"});
  constexpr const char* kPlacement = "table.fields.additional.placement";
  if (in.Flag()) {
    config.options.emplace_back(kPlacement, in.Text());
  } else {
    Choose(&in, &config, kPlacement,
           {"type:header:eventType", "type:envelope", "shard:partition", "x:envelope:y:number,id:header:z"});
  }
  for (const auto& [name, value] : config.options) {
    const sink::OptionProblem problem = CheckRouteOption(*FindRouteOption(*config.kind, *config.format, name), value);
    if (!fuzz::IsUtf8(value)) {
      return 0;  // no database has it
    }
    if (!problem.ok()) {
      FUZZ_CHECK(name == kPlacement && !problem.message.empty() && !problem.hint.empty());
      return 0;
    }
  }
  if (!config.format->check({config.kind, config.form, &config.options, {}}).ok()) {
    return 0;
  }
  TemplateError template_error;
  RecordFormat format(RouteSpec::Make(config, &template_error));
  const bool flat = config.kind->needs_field;
  const bool extended = Option(config, "message.format") == "extended";
  const bool enveloped = HasEnvelope(Option(config, kPlacement));
  const bool expand = Option(config, "table.expand.json.payload") == "true";
  for (uint64_t i = 1 + in.Below(3); i > 0; --i) {
    int64_t wall = 0;
    Event event = events.Take(&in, &wall);
    event.topic = {};
    if (IsNull(event.content_type) && !IsNull(event.payload) && !fuzz::IsUtf8(event.payload)) {
      event.content_type = "application/octet-stream";
    }
    if (!events.IsUtf8(event)) {
      continue;
    }
    std::string out;
    sink::Record record;
    Error error;
    if (!fuzz::Formatted(&format, event, wall, &out, &record, &error)) {
      FUZZ_CHECK(error.code == "INVALID_PARTITION" || error.code == "HEADER_NAME_TAKEN" ||
                 error.code == "RECORD_TOO_LARGE");
      continue;
    }
    std::string_view key = record.key;
    std::string_view value = record.body;
    size_t first = 0;
    if (flat) {
      FUZZ_CHECK(record.fields_only && record.fields.size() >= (extended ? 3U : 1U));
      key = extended ? record.fields[0].value : record.fields[0].name;
      value = record.fields[extended ? 1 : 0].value;
      first = extended ? 2 : 1;
    }
    if (Option(config, "key.converter") == "json") {
      const auto json = fuzz::Json::Read(key);
      FUZZ_CHECK(json && (IsNull(event.aggregate_id) ? json->is_null() : json->text() == event.aggregate_id));
    } else if (!IsNull(event.aggregate_id)) {
      FUZZ_CHECK(key == event.aggregate_id);
    }
    if (Option(config, "header.converter") == "json") {
      for (size_t f = first; f < record.fields.size(); ++f) {
        FUZZ_CHECK(fuzz::Json::Read(record.fields[f].value).has_value());
      }
    }
    if (IsNull(record.body)) {
      continue;  // a tombstone
    }
    if (!enveloped && !expand && Option(config, "value.converter") != "json") {
      FUZZ_CHECK(value == event.payload);
      continue;
    }
    auto json = fuzz::Json::Read(value);
    FUZZ_CHECK(json.has_value());
    if (enveloped && json->is_object() && !json->members().empty() && json->members()[0].first == "payload") {
      json = fuzz::Json::Read(json->members()[0].second);
      FUZZ_CHECK(json.has_value());
    }
    if (json->is_string()) {
      const std::string text = json->text();
      FUZZ_CHECK(text == event.payload || fuzz::FromBase64(text) == std::string(event.payload));
    } else {
      FUZZ_CHECK(json->is_null() ? IsNull(event.payload)
                                 : json->is_object() && expand && event.payload.starts_with('{'));
    }
  }
  return 0;
}
