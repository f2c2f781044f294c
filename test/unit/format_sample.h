// Events and records that own their bytes, and how formats make one of the other: for tests of formats.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "format/format.h"
#include "format/record_format.h"

namespace outbox::format {

inline constexpr int64_t kCreatedAt = 1'700'000'000'123'456;

using Header = std::pair<std::string, std::string>;

inline std::string PackHeaders(const std::vector<Header>& headers) {
  std::string packed;
  for (const auto& [name, value] : headers) {
    for (const std::string& text : {name, value}) {
      const auto size = static_cast<uint32_t>(text.size());
      packed.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(text);
    }
  }
  return packed;
}

// An event that owns its bytes.
struct Sample {
  int64_t created_at = kCreatedAt;
  Uuid id = MakeUuid7(kCreatedAt, 0x123456789abcdef);
  std::string aggregate_type = "OrderLine";
  std::optional<std::string> aggregate_id = "42";
  std::string event_type = "line.added";
  std::optional<std::string> payload = "{\"a\": 1}";
  std::optional<std::string> content_type;
  std::vector<Header> headers;

  Event Make() {
    const auto view = [](const std::optional<std::string>& text) {
      return text ? std::string_view(*text) : std::string_view();
    };
    packed_ = PackHeaders(headers);
    Event event;
    event.created_at = created_at;
    event.id = id;
    event.aggregate_type = aggregate_type;
    event.aggregate_id = view(aggregate_id);
    event.event_type = event_type;
    event.payload = view(payload);
    event.content_type = view(content_type);
    event.headers.packed = headers.empty() ? std::string_view() : packed_;
    return event;
  }

 private:
  std::string packed_;
};

inline RouteConfig Config(const char* format, const char* wrapper, sink::RecordForm form = sink::RecordForm::kStream) {
  RouteConfig config;
  config.kind = sink::FindKind(wrapper);
  config.form = form;
  config.format = FindFormat(format);
  config.topic = "t";
  config.source = "/outbox/shop";
  return config;
}

inline std::shared_ptr<const RouteSpec> Route(const RouteConfig& config) {
  TemplateError error;
  auto spec = RouteSpec::Make(config, &error);
  EXPECT_NE(spec, nullptr) << error.message;
  return spec;
}

// A record that owns its bytes; what was refused has an error instead.
struct Made {
  std::optional<std::string> key;
  std::optional<std::string> body;
  std::vector<std::pair<std::string, std::optional<std::string>>> fields;
  bool fields_only = false;
  int32_t partition = sink::Record::kByKey;
  std::string error;

  const std::optional<std::string>* Find(const std::string& name) const {
    for (const auto& field : fields) {
      if (field.first == name) {
        return &field.second;
      }
    }
    return nullptr;
  }
};

inline Made Append(RecordFormat* format, const Event& event) {
  std::string packed;
  Error error;
  Made made;
  if (!format->Append(event, event.created_at, &packed, &error)) {
    EXPECT_TRUE(packed.empty());
    EXPECT_EQ(error.error_class, ErrorClass::kMessage);
    EXPECT_FALSE(error.message.empty());
    made.error = error.code;
    return made;
  }
  sink::RecordReader reader(packed);
  sink::Record record;
  EXPECT_TRUE(reader.Next(&record));
  const auto own = [](std::string_view view) {
    return IsNull(view) ? std::nullopt : std::optional<std::string>(std::string(view));
  };
  made.key = own(record.key);
  made.body = own(record.body);
  for (const sink::Field& field : record.fields) {
    made.fields.emplace_back(std::string(field.name), own(field.value));
  }
  made.fields_only = record.fields_only;
  made.partition = record.partition;
  EXPECT_EQ(record.topic, "t");
  EXPECT_EQ(record.timestamp_ms, event.created_at / 1000);
  EXPECT_FALSE(reader.Next(&record));
  EXPECT_TRUE(reader.ok());
  return made;
}

// "key|body|name=value;..." with "-" for NULL, and "+" before fields that are alone; or the error's code.
inline std::string Show(const RouteConfig& config, Sample sample) {
  RecordFormat format(Route(config));
  const Made made = Append(&format, sample.Make());
  if (!made.error.empty()) {
    return made.error;
  }
  std::string text = made.key.value_or("-") + "|" + made.body.value_or("-") + "|" + (made.fields_only ? "+" : "");
  for (const auto& [name, value] : made.fields) {
    text += name + "=" + value.value_or("-") + ";";
  }
  return text;
}

}  // namespace outbox::format
