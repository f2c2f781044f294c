// CloudEvents, binary and structured: every attribute is one that the specification allows, the data is the payload,
// and what is refused has the fault that is named.
#include <set>

#include "events.h"
#include "json.h"

using namespace outbox;
using namespace outbox::format;

namespace {

bool IsControl(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 || c == 0x7F || (c == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0)) {
      return true;
    }
  }
  return false;
}

// Of the spaces that JSON may have around it.
std::string_view Trimmed(std::string_view json) {
  const size_t first = json.find_first_not_of(" \t\r\n");
  return first == std::string_view::npos ? "" : json.substr(first, json.find_last_not_of(" \t\r\n") + 1 - first);
}

void CheckAttribute(std::string_view name, std::string_view value) {
  FUZZ_CHECK(!name.empty() && name.size() <= 20);
  FUZZ_CHECK(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789") == std::string_view::npos);
  FUZZ_CHECK(fuzz::IsUtf8(value) && (!IsControl(value) || name == "datacontenttype"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  fuzz::Events events;
  RouteConfig config;
  config.kind = sink::Kinds()[in.Below(sink::Kinds().size())];
  config.form = static_cast<sink::RecordForm>(in.Below(3));
  config.format = FindFormat(in.Flag() ? "cloudevents" : "cloudevents-json");
  config.source = "/outbox/fuzz";
  config.topic = "t";
  const bool binary = std::string_view(config.format->name) == "cloudevents";
  if (in.Flag()) {
    config.options.emplace_back("source", in.Text());
    if (!CheckRouteOption(*FindRouteOption(*config.kind, *config.format, "source"), config.options[0].second).ok()) {
      return 0;
    }
  }
  const Use use{config.kind, config.form, &config.options, config.source};
  if (config.format->check != nullptr && !config.format->check(use).ok()) {
    return 0;
  }
  TemplateError template_error;
  RecordFormat format(RouteSpec::Make(config, &template_error));
  const bool flat = config.kind->needs_field && config.form == sink::RecordForm::kStream;
  for (uint64_t i = 1 + in.Below(3); i > 0; --i) {
    int64_t wall = 0;
    Event event = events.Take(&in, &wall);
    event.topic = {};
    // As emit() takes them.
    if (IsNull(event.content_type) && !IsNull(event.payload) &&
        !(fuzz::IsUtf8(event.payload) && fuzz::Json::Read(event.payload))) {
      event.content_type = "application/octet-stream";
    }
    std::set<std::string> names;
    for (const auto& [name, value] : events.headers) {
      names.insert(name);
    }
    if (!events.IsUtf8(event) || names.size() != events.headers.size() || names.contains("content-type")) {
      continue;
    }
    std::string out;
    sink::Record record;
    Error error;
    if (!fuzz::Formatted(&format, event, wall, &out, &record, &error)) {
      FUZZ_CHECK(error.code != "NO_CLOUDEVENT" || event.event_type.empty() || IsControl(event.event_type));
      FUZZ_CHECK(error.code == "NO_CLOUDEVENT" || error.code == "HEADER_NAME_TAKEN" ||
                 (binary && error.code == "CONTENT_TYPE_TAKEN"));
      continue;
    }
    FUZZ_CHECK(fuzz::Same(record.key, event.aggregate_id) && record.fields_only == flat);
    std::set<std::string_view> seen;
    std::string_view content_type;
    std::string_view body = record.body;
    std::set<std::string> attributes;
    for (const sink::Field& field : record.fields) {
      FUZZ_CHECK(seen.insert(field.name).second);
      if (field.name == "content-type") {
        content_type = field.value;
      } else if (field.name.starts_with("ce_")) {
        CheckAttribute(field.name.substr(3), field.value);
        attributes.emplace(field.name.substr(3));
      } else if (flat && (field.name == "data" || field.name == "event")) {
        FUZZ_CHECK(IsNull(record.body));
        body = field.value;
      } else {
        FUZZ_CHECK(!flat || field.name.starts_with("h:"));
        FUZZ_CHECK(names.contains(std::string(field.name.substr(flat ? 2 : 0))));
      }
    }
    if (binary) {
      FUZZ_CHECK(fuzz::Same(body, event.payload));
      FUZZ_CHECK(content_type == (IsNull(event.content_type) ? "application/json" : event.content_type));
    } else {
      FUZZ_CHECK(attributes.empty() && content_type == "application/cloudevents+json; charset=UTF-8");
      const auto json = fuzz::Json::Read(body);
      FUZZ_CHECK(json && json->is_object() && fuzz::IsUtf8(body));
      bool has_data = false;
      for (const auto& [name, written] : json->members()) {
        FUZZ_CHECK(attributes.insert(name).second);
        if (name == "data") {
          has_data = true;
          const auto value = fuzz::Json::Read(written);
          FUZZ_CHECK(Trimmed(written) == Trimmed(event.payload) ||
                     (value && value->is_string() && value->text() == event.payload));
        } else if (name == "data_base64") {
          has_data = true;
          FUZZ_CHECK(fuzz::FromBase64(fuzz::Json::Read(written)->text()) == std::string(event.payload));
        } else {
          CheckAttribute(name, fuzz::Json::Read(written)->text());
        }
      }
      FUZZ_CHECK(has_data == !IsNull(event.payload));
    }
    for (const char* required : {"specversion", "id", "source", "type", "time", "sequence"}) {
      FUZZ_CHECK(attributes.contains(required));
    }
  }
  return 0;
}
