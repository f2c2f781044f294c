// Every format, to the byte, by kind of destination; and read back, for random events: nothing an event has is lost.
#include "format/format.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <map>
#include <optional>
#include <random>

#include "base/uri.h"
#include "base/utf8.h"
#include "format/json_writer.h"
#include "format/record_format.h"

namespace outbox::format {
namespace {

constexpr int64_t kCreatedAt = 1'700'000'000'123'456;

using Header = std::pair<std::string, std::string>;

std::string PackHeaders(const std::vector<Header>& headers) {
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

RouteConfig Config(const char* format, const char* wrapper, sink::RecordForm form = sink::RecordForm::kStream) {
  RouteConfig config;
  config.kind = sink::FindKind(wrapper);
  config.form = form;
  config.format = FindFormat(format);
  config.topic = "t";
  config.source = "/outbox/shop";
  return config;
}

std::shared_ptr<const RouteSpec> Route(const RouteConfig& config) {
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

Made Append(RecordFormat* format, const Event& event) {
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
std::string Show(const RouteConfig& config, Sample sample) {
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

TEST(Formats, AreFoundByTheirNames) {
  EXPECT_EQ(FindFormat("outbox"), &kOutboxFormat);
  EXPECT_EQ(FindFormat("Outbox"), nullptr);
  EXPECT_EQ(FindFormat(""), nullptr);
  for (const Format* format : Formats()) {
    EXPECT_EQ(FindFormat(format->name), format);
    for (const sink::RouteOption& option : format->options) {
      for (const sink::SinkKind* kind : sink::Kinds()) {
        EXPECT_EQ(FindRouteOption(*kind, *format, option.name), &option) << "an option of both";
      }
    }
  }
  const sink::OptionProblem problem = UnknownFormat("payloads");
  EXPECT_STREQ(problem.sqlstate, "22023");
  EXPECT_TRUE(problem.hint.starts_with("Did you mean \"payload\"? A format is outbox, ")) << problem.hint;
  EXPECT_TRUE(UnknownFormat("protobuf3").hint.starts_with("A format is ")) << UnknownFormat("protobuf3").hint;
}

TEST(Payload, IsValueAndKey) {
  Sample sample;
  sample.headers = {{"trace", "abc"}};
  EXPECT_EQ(Show(Config("payload", "outbox_kafka"), sample), "42|{\"a\": 1}|");
  EXPECT_EQ(Show(Config("payload", "outbox_redis"), sample), "42|{\"a\": 1}|");
  sample.payload.reset();
  EXPECT_EQ(Show(Config("payload", "outbox_kafka"), sample), "42|-|");
  sample.aggregate_id.reset();
  EXPECT_EQ(Show(Config("payload", "outbox_kafka"), sample), "-|-|");
  EXPECT_EQ(Show(Config("payload", "outbox_redis"), sample), "-||") << "a stream entry has a field at least";
}

TEST(Framing, AsConfluentDoes) {
  Sample sample;
  sample.headers = {{"schema_id", "258"}};
  const std::string framed("\0\0\0\1\2{\"a\": 1}", 13);
  for (const char* format : {"outbox", "payload", "cloudevents"}) {
    for (const char* wrapper : {"outbox_kafka", "outbox_redis"}) {
      RouteConfig config = Config(format, wrapper);
      config.options = {{"framing", "confluent"}};
      RecordFormat framing(Route(config));
      const Made made = Append(&framing, sample.Make());
      const std::optional<std::string>* data = made.Find("data");
      EXPECT_EQ(data != nullptr ? *data : made.body, framed) << format << " " << wrapper;
    }
  }
  RouteConfig config = Config("payload", "outbox_kafka");
  config.options = {{"framing", "confluent"}};
  sample.payload = "";
  EXPECT_EQ(Show(config, sample), "42|" + std::string("\0\0\0\1\2", 5) + "|");
  sample.headers = {{"schema_id", "2147483647"}};
  EXPECT_EQ(Show(config, sample), "42|" + std::string("\0\x7f\xff\xff\xff", 5) + "|");
  for (const char* bad : {"", "-1", "2147483648", "99999999999", "1x", " 1"}) {
    sample.headers = {{"schema_id", bad}};
    EXPECT_EQ(Show(config, sample), "NO_SCHEMA_ID") << bad;
  }
  sample.headers.clear();
  EXPECT_EQ(Show(config, sample), "NO_SCHEMA_ID");
  sample.payload.reset();
  EXPECT_EQ(Show(config, sample), "42|-|");
  TemplateError error;
  config.options = {{"framing", "glue"}};
  EXPECT_EQ(RouteSpec::Make(config, &error), nullptr);
}

// Two lanes of one spec, and one lane that formats again: the same event gives the same bytes.
TEST(Formats, SameEventSameBytes) {
  for (const Format* format : Formats()) {
    for (const char* wrapper : {"outbox_kafka", "outbox_redis"}) {
      const auto spec = Route(Config(format->name, wrapper));
      Sample sample;
      sample.headers = {{"tenant", "a"}, {"X-Other", "b"}};
      Sample other;
      other.payload = std::string(1000, 'x');
      other.content_type = "text/plain";
      RecordFormat one(spec);
      RecordFormat two(spec);
      std::string first;
      std::string again;
      std::string between;
      Error error;
      ASSERT_TRUE(one.Append(sample.Make(), kCreatedAt, &first, &error));
      ASSERT_TRUE(one.Append(other.Make(), kCreatedAt, &between, &error));
      ASSERT_TRUE(one.Append(sample.Make(), kCreatedAt, &again, &error));
      EXPECT_EQ(first, again) << format->name;
      again.clear();
      ASSERT_TRUE(two.Append(sample.Make(), kCreatedAt, &again, &error));
      EXPECT_EQ(first, again) << format->name;
    }
  }
}

// --- CloudEvents ---

TEST(CloudEvents, BinaryForKafka) {
  Sample sample;
  sample.headers = {{"tenant", "acme"},
                    {"X-Request-Id", "7"},
                    {"dataschema", "https://s.example/o/2"},
                    {"schema_version", "2"},
                    {"source", "elsewhere"},
                    {"traceparent", "00-ab-cd-01"},
                    {"tracestate", "a=b"},
                    {"baggage", "u=1"},
                    {"tab", "a\tb"},
                    {"outbox-replay", "3"},
                    {"averyveryverylongname", "x"}};
  EXPECT_EQ(Show(Config("cloudevents", "outbox_kafka"), sample),
            "42|{\"a\": 1}|ce_specversion=1.0;ce_id=018bcfe5-687b-71c8-8123-456789abcdef;ce_source=/outbox/shop;"
            "ce_type=line.added;ce_time=2023-11-14T22:13:20.123456Z;ce_subject=42;ce_aggregatetype=OrderLine;"
            "ce_partitionkey=42;ce_sequence=1700000000123456;ce_tenant=acme;X-Request-Id=7;"
            "ce_dataschema=https://s.example/o/2;ce_schemaversion=2;source=elsewhere;ce_traceparent=00-ab-cd-01;"
            "traceparent=00-ab-cd-01;ce_tracestate=a=b;tracestate=a=b;ce_baggage=u=1;baggage=u=1;tab=a\tb;"
            "outbox-replay=3;averyveryverylongname=x;content-type=application/json;");
}

TEST(CloudEvents, BinaryOfBytesAndOfNothing) {
  Sample sample;
  sample.payload = std::string("\0\xff", 2);
  sample.content_type = "application/octet-stream";
  sample.aggregate_id.reset();
  sample.aggregate_type = "";
  const std::string head =
      "ce_specversion=1.0;ce_id=018bcfe5-687b-71c8-8123-456789abcdef;ce_source=/outbox/shop;"
      "ce_type=line.added;ce_time=2023-11-14T22:13:20.123456Z;";
  EXPECT_EQ(Show(Config("cloudevents", "outbox_kafka"), sample),
            "-|" + std::string("\0\xff", 2) + "|" + head +
                "ce_sequence=1700000000123456;content-type=application/octet-stream;");
  sample.payload.reset();
  sample.content_type.reset();
  EXPECT_EQ(Show(Config("cloudevents", "outbox_kafka"), sample),
            "-|-|" + head + "ce_sequence=1700000000123456;content-type=application/json;");
  EXPECT_EQ(Show(Config("cloudevents", "outbox_redis"), sample),
            "-|-|+" + head + "ce_sequence=1700000000123456;content-type=application/json;");
}

TEST(CloudEvents, BinaryForRedis) {
  Sample sample;
  sample.headers = {{"tenant", "acme"}, {"X-Request-Id", "7"}};
  EXPECT_EQ(Show(Config("cloudevents", "outbox_redis"), sample),
            "42|-|+ce_specversion=1.0;ce_id=018bcfe5-687b-71c8-8123-456789abcdef;ce_source=/outbox/shop;"
            "ce_type=line.added;ce_time=2023-11-14T22:13:20.123456Z;ce_subject=42;ce_aggregatetype=OrderLine;"
            "ce_partitionkey=42;ce_sequence=1700000000123456;ce_tenant=acme;h:X-Request-Id=7;"
            "content-type=application/json;data={\"a\": 1};");
}

constexpr char kStructuredHead[] =
    "{\"specversion\":\"1.0\",\"id\":\"018bcfe5-687b-71c8-8123-456789abcdef\",\"source\":\"/outbox/shop\","
    "\"type\":\"line.added\",\"time\":\"2023-11-14T22:13:20.123456Z\",\"subject\":\"42\","
    "\"aggregatetype\":\"OrderLine\",\"partitionkey\":\"42\",\"sequence\":\"1700000000123456\",";

TEST(CloudEvents, Structured) {
  Sample sample;
  sample.headers = {{"tenant", "a\"c\\me"}, {"X-Request-Id", "7"}};
  const std::string event = std::string(kStructuredHead) +
                            "\"tenant\":\"a\\\"c\\\\me\",\"datacontenttype\":\"application/json\",\"data\":{\"a\": 1}}";
  const std::string type = "content-type=application/cloudevents+json; charset=UTF-8;";
  EXPECT_EQ(Show(Config("cloudevents-json", "outbox_kafka"), sample), "42|" + event + "|" + type + "X-Request-Id=7;");
  EXPECT_EQ(Show(Config("cloudevents-json", "outbox_redis"), sample),
            "42|-|+" + type + "h:X-Request-Id=7;event=" + event + ";");
  EXPECT_EQ(Show(Config("cloudevents-json", "outbox_redis", sink::RecordForm::kList), sample),
            "42|" + event + "|" + type + "X-Request-Id=7;");
}

// How the payload stands in the JSON object.
std::string Data(std::optional<std::string> payload, std::optional<std::string> content_type) {
  Sample sample;
  sample.payload = std::move(payload);
  sample.content_type = std::move(content_type);
  const std::string shown = Show(Config("cloudevents-json", "outbox_kafka"), sample);
  const std::string head = "42|" + std::string(kStructuredHead) + "\"datacontenttype\":";
  EXPECT_TRUE(shown.starts_with(head)) << shown;
  return shown.substr(head.size(), shown.find("}|content-type=") - head.size());
}

TEST(CloudEvents, DataOfAStructuredEvent) {
  EXPECT_EQ(Data(std::nullopt, std::nullopt), "\"application/json\"") << "no data, and no tombstone";
  EXPECT_EQ(Data("\"text\"", std::nullopt), "\"application/json\",\"data\":\"text\"");
  EXPECT_EQ(Data("null", std::nullopt), "\"application/json\",\"data\":null");
  EXPECT_EQ(Data("{ \"a\" : 1 }", "application/vnd.a+json; v=1"),
            "\"application/vnd.a+json; v=1\",\"data\":{ \"a\" : 1 }");
  EXPECT_EQ(Data("{ \"a\" : ", "application/json"), "\"application/json\",\"data_base64\":\"eyAiYSIgOiA=\"")
      << "says that it is JSON";
  EXPECT_EQ(Data("a\nb", "text/plain"), "\"text/plain\",\"data\":\"a\\nb\"");
  EXPECT_EQ(Data("<a/>", "application/soap+xml"), "\"application/soap+xml\",\"data\":\"<a/>\"");
  EXPECT_EQ(Data("\xff", "text/plain"), "\"text/plain\",\"data_base64\":\"/w==\"");
  EXPECT_EQ(Data("", "application/octet-stream"), "\"application/octet-stream\",\"data_base64\":\"\"");
}

TEST(CloudEvents, WhatCannotBeOne) {
  Sample sample;
  sample.headers = {{"CE_id", "x"}};
  EXPECT_EQ(Show(Config("cloudevents", "outbox_kafka"), sample), "HEADER_NAME_TAKEN");
  EXPECT_EQ(Show(Config("cloudevents-json", "outbox_redis"), sample), "HEADER_NAME_TAKEN");
  sample = {};
  sample.content_type = "Application/CloudEvents+json";
  EXPECT_EQ(Show(Config("cloudevents", "outbox_kafka"), sample), "CONTENT_TYPE_TAKEN");
  sample = {};
  sample.event_type = "a\nb";
  EXPECT_EQ(Show(Config("cloudevents", "outbox_kafka"), sample), "NO_CLOUDEVENT");
  EXPECT_EQ(Show(Config("cloudevents-json", "outbox_kafka"), sample), "NO_CLOUDEVENT");
}

TEST(CloudEvents, SourceAndForm) {
  RouteConfig config = Config("cloudevents", "outbox_kafka");
  config.options = {{"source", "https://shop.example"}, {"topics_known", "[]"}};
  EXPECT_NE(Show(config, {}).find("ce_source=https://shop.example;"), std::string::npos);
  TemplateError error;
  config.options = {{"source", "no uri"}};
  EXPECT_EQ(RouteSpec::Make(config, &error), nullptr);
  EXPECT_EQ(RouteSpec::Make(Config("cloudevents", "outbox_redis", sink::RecordForm::kList), &error), nullptr);
  EXPECT_NE(RouteSpec::Make(Config("cloudevents-json", "outbox_redis", sink::RecordForm::kList), &error), nullptr);
}

TEST(CloudEvents, TimesOfAllYears) {
  const std::map<int64_t, std::string> times = {{0, "1970-01-01T00:00:00.000000Z"},
                                                {-1, "1969-12-31T23:59:59.999999Z"},
                                                {951'782'400'000'000, "2000-02-29T00:00:00.000000Z"},
                                                {4'107'542'399'999'999, "2100-02-28T23:59:59.999999Z"},
                                                {4'107'542'400'000'000, "2100-03-01T00:00:00.000000Z"},
                                                {253'402'300'799'999'999, "9999-12-31T23:59:59.999999Z"}};
  for (const auto& [micros, text] : times) {
    RecordFormat format(Route(Config("cloudevents", "outbox_kafka")));
    Sample sample;
    sample.created_at = micros;
    EXPECT_EQ(*Append(&format, sample.Make()).Find("ce_time"), text);
  }
}

TEST(Uri, AsReadersHaveIt) {
  for (const char* good : {"/", "/shop", "shop/orders", "https://shop.example/a?b=c#d", "urn:uuid:1", "a%20b", "x.y"}) {
    EXPECT_TRUE(IsUriReference(good)) << good;
  }
  for (const char* bad : {"", " ", "a b", "a%2", "%zz", "1a:b", "caf\xc3\xa9", "[::1]", "a\nb", "a{b}", ":a", "a:"}) {
    EXPECT_FALSE(IsUriReference(bad)) << bad;
  }
  EXPECT_TRUE(IsUri("https://a"));
  EXPECT_FALSE(IsUri("/a"));
}

TEST(Json, IsJson) {
  for (const char* good : {"1", "-0.5e+7", " { } ", "[]", "[1,[2,{\"a\":[]}],\"\\u00e9\\n\"]", "true", "null\n", "\"\"",
                           "{\"a\":{\"b\":[1,2]},\"c\":null}"}) {
    EXPECT_TRUE(IsJson(good)) << good;
  }
  for (const char* bad : {"",    " ",     "{",   "[1,]", "{\"a\"}",  "{\"a\":1,}", "{a:1}",       "01",
                          "1.",  "-",     "+1",  "tru",  "nulll",    "\"\\x\"",    "\"\\u12g4\"", "\"a\nb\"",
                          "\"a", "[1 2]", "1 2", "]",    "\"\xff\"", "{\"a\":1]"}) {
    EXPECT_FALSE(IsJson(bad)) << bad;
  }
  EXPECT_TRUE(IsJson(std::string(900, '[') + std::string(900, ']')));
  EXPECT_FALSE(IsJson(std::string(100000, '[') + std::string(100000, ']')));
}

// --- decode(encode(x)) = x ---

// What a consumer can say of an event.
struct Read {
  std::optional<std::string> key;
  std::optional<std::string> payload;
  std::optional<std::string> content_type;
  std::optional<std::string> id;
  std::optional<std::string> event_type;
  std::optional<std::string> aggregate_type;
  std::optional<int64_t> created_at;
  std::map<std::string, std::string> headers;
};

std::optional<std::string> Take(std::map<std::string, std::string>* fields, const std::string& name) {
  const auto found = fields->find(name);
  if (found == fields->end()) {
    return std::nullopt;
  }
  std::string value = found->second;
  fields->erase(found);
  return value;
}

std::map<std::string, std::string> Fields(const Made& made) {
  std::map<std::string, std::string> fields;
  for (const auto& [name, value] : made.fields) {
    EXPECT_TRUE(fields.emplace(name, value.value_or("")).second) << name << " twice";
  }
  return fields;
}

// `prefix`: before headers, at Redis.
std::map<std::string, std::string> Unprefixed(const std::map<std::string, std::string>& fields,
                                              const std::string& prefix) {
  std::map<std::string, std::string> headers;
  for (const auto& [name, value] : fields) {
    EXPECT_TRUE(name.starts_with(prefix)) << name;
    headers.emplace(name.substr(prefix.size()), value);
  }
  return headers;
}

Read ReadOutbox(const Made& made, bool redis) {
  std::map<std::string, std::string> fields = Fields(made);
  Read read;
  read.key = made.key;
  read.payload = made.body;
  read.id = Take(&fields, "id");
  read.event_type = Take(&fields, "type");
  read.aggregate_type = Take(&fields, "aggregate_type");
  read.content_type = Take(&fields, redis ? "content_type" : "content-type");
  read.created_at = std::stoll(Take(&fields, "created_at").value_or("0"));
  read.headers = Unprefixed(fields, redis ? "h:" : "");
  return read;
}

// A string at the front of `json`, which is cut off.
std::string TakeString(std::string_view* json) {
  std::string text;
  EXPECT_TRUE(json->starts_with('"'));
  json->remove_prefix(1);
  while (!json->starts_with('"')) {
    char c = json->front();
    json->remove_prefix(1);
    if (c == '\\') {
      c = json->front();
      json->remove_prefix(1);
      const size_t at = std::string_view("bfnrt").find(c);
      if (at != std::string_view::npos) {
        c = "\b\f\n\r\t"[at];
      } else if (c == 'u') {
        c = static_cast<char>(std::stoi(std::string(json->substr(0, 4)), nullptr, 16));
        json->remove_prefix(4);
      }
    }
    text += c;
  }
  json->remove_prefix(1);
  return text;
}

std::string FromBase64(std::string_view text) {
  const std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') {
      break;
    }
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    if ((count += 6) >= 8) {
      bytes += static_cast<char>(bits >> (count -= 8));
    }
  }
  return bytes;
}

int64_t Micros(const std::string& time) {
  std::tm parts{};
  const char* rest = strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  return rest == nullptr ? -1 : int64_t{timegm(&parts)} * 1'000'000 + std::stoll(rest + 1);
}

// What both modes have in common: attributes by name, headers beside.
Read ReadAttributes(std::map<std::string, std::string> attributes, std::map<std::string, std::string> headers) {
  Read read;
  EXPECT_EQ(Take(&attributes, "specversion"), "1.0");
  EXPECT_EQ(Take(&attributes, "source"), "/outbox/shop");
  Take(&attributes, "subject");
  read.key = Take(&attributes, "partitionkey");
  read.id = Take(&attributes, "id");
  read.event_type = Take(&attributes, "type");
  read.aggregate_type = Take(&attributes, "aggregatetype");
  read.created_at = Micros(Take(&attributes, "time").value_or(""));
  EXPECT_EQ(read.created_at, std::stoll(Take(&attributes, "sequence").value_or("0")));
  if (auto version = Take(&attributes, "schemaversion")) {
    headers["schema_version"] = *version;
  }
  for (const auto& [name, value] : attributes) {
    const auto [header, fresh] = headers.emplace(name, value);
    EXPECT_TRUE(fresh ||
                (header->second == value && (name == "traceparent" || name == "tracestate" || name == "baggage")))
        << name;
  }
  read.headers = headers;
  return read;
}

Read ReadBinary(const Made& made, bool redis) {
  std::map<std::string, std::string> fields = Fields(made);
  const std::optional<std::string> content_type = Take(&fields, "content-type");
  const std::optional<std::string> payload = redis ? Take(&fields, "data") : made.body;
  std::map<std::string, std::string> attributes;
  std::map<std::string, std::string> headers;
  for (const auto& [name, value] : fields) {
    if (name.starts_with("ce_")) {
      attributes.emplace(name.substr(3), value);
    } else {
      headers.emplace(name, value);
    }
  }
  Read read = ReadAttributes(attributes, Unprefixed(headers, redis ? "h:" : ""));
  read.content_type = content_type;
  read.payload = payload;
  return read;
}

Read ReadStructured(const Made& made, bool redis) {
  std::map<std::string, std::string> fields = Fields(made);
  EXPECT_EQ(Take(&fields, "content-type"), "application/cloudevents+json; charset=UTF-8");
  const std::string event = redis ? Take(&fields, "event").value_or("") : made.body.value_or("");
  EXPECT_TRUE(IsJson(event)) << event;
  std::map<std::string, std::string> attributes;
  std::optional<std::string> data;
  std::optional<std::string> data_base64;
  for (std::string_view json = event; json.size() > 1;) {
    json.remove_prefix(1);  // the brace, a comma
    const std::string name = TakeString(&json);
    json.remove_prefix(1);
    if (name == "data") {
      data = json.substr(0, json.size() - 1);
      break;
    }
    (name == "data_base64" ? data_base64.emplace() : attributes[name]) = TakeString(&json);
  }
  const std::optional<std::string> content_type = Take(&attributes, "datacontenttype");
  Read read = ReadAttributes(attributes, Unprefixed(fields, redis ? "h:" : ""));
  read.content_type = content_type;
  if (data_base64) {
    read.payload = FromBase64(*data_base64);
  } else if (data && content_type->find("json") == std::string::npos) {
    std::string_view text = *data;
    read.payload = TakeString(&text);
  } else {
    read.payload = data;
  }
  return read;
}

Sample RandomSample(std::mt19937_64* random) {
  const auto below = [random](uint64_t n) { return (*random)() % n; };
  const auto text = [&](const char* const* letters, size_t count, size_t longest) {
    std::string made;
    for (uint64_t n = below(longest + 1); n > 0; --n) {
      made += letters[below(count)];
    }
    return made;
  };
  constexpr const char* kText[] = {"a", "Z", "0", " ", "\"", "\\", "\n", "\x01", "\x7f", "\xc3\xa9", "\xe2\x82\xac",
                                   "{", "%"};
  constexpr const char* kPlain[] = {"a", "Z", "7", " ", "\"", "\\", "/", "\xc3\xa9", "\xf0\x9f\x98\x80", "="};
  constexpr const char* kNames[] = {"a", "b", "7", "-", "_", "X"};
  constexpr const char* kJson[] = {"{\"a\": [1, null, \"x\"]}", "7", "\"text\"", "null", "[]",
                                   "{\"a\":{\"b\":\"\\n\"}}"};
  Sample sample;
  sample.created_at = static_cast<int64_t>(below(uint64_t{1} << 52));
  for (uint8_t& byte : sample.id) {
    byte = static_cast<uint8_t>(below(256));
  }
  sample.aggregate_type = "t" + text(kPlain, std::size(kPlain), 8);
  sample.event_type = "e" + text(kPlain, std::size(kPlain), 8);
  if (below(4) == 0) {
    sample.aggregate_id.reset();
  } else {
    sample.aggregate_id = "k" + text(kPlain, std::size(kPlain), 8);
  }
  switch (below(6)) {
    case 0:
      sample.payload.reset();
      break;
    case 1:
      sample.content_type = "text/plain; charset=utf-8";
      sample.payload = text(kText, std::size(kText), 30);
      break;
    case 2:
      sample.content_type = below(2) == 0 ? "application/octet-stream" : "text/plain";
      sample.payload = "";
      for (uint64_t n = below(20); n > 0; --n) {
        *sample.payload += static_cast<char>(below(256));
      }
      break;
    case 3:
      sample.content_type = "application/json";
      sample.payload = below(2) == 0 ? kJson[below(std::size(kJson))] : text(kText, std::size(kText), 5);
      break;
    default:
      sample.payload = kJson[below(std::size(kJson))];
  }
  std::map<std::string, std::string> headers;
  for (uint64_t n = below(5); n > 0; --n) {
    constexpr const char* kKnown[] = {"traceparent", "tracestate", "baggage", "schema_version",
                                      "dataschema",  "source",     "data"};
    const std::string name =
        below(3) == 0 ? kKnown[below(std::size(kKnown))] : "n" + text(kNames, std::size(kNames), 24);
    headers[name] = below(4) == 0 ? "https://a.example/b" : text(kText, std::size(kText), 6);
  }
  sample.headers.assign(headers.begin(), headers.end());
  return sample;
}

TEST(Formats, ReadBackWhatWasWritten) {
  // What each can say of an event. A format without a reader here is looked at by a test of its own.
  const std::map<std::string, Read (*)(const Made&, bool)> readers = {
      {"outbox", ReadOutbox}, {"cloudevents", ReadBinary}, {"cloudevents-json", ReadStructured}};
  const char* wanted = std::getenv("OUTBOX_CASES");
  const uint64_t cases = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 20000;
  for (const auto& [name, reader] : readers) {
    for (const char* wrapper : {"outbox_kafka", "outbox_redis"}) {
      const bool redis = std::string(wrapper) == "outbox_redis";
      RecordFormat format(Route(Config(name.c_str(), wrapper)));
      for (uint64_t seed = 1; seed <= cases / 6 && !testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE(name + " for " + wrapper + ", seed " + std::to_string(seed));
        std::mt19937_64 random(seed);
        Sample sample = RandomSample(&random);
        const Made made = Append(&format, sample.Make());
        ASSERT_EQ(made.error, "");
        const Read read = reader(made, redis);
        char id[kUuidTextLength];
        FormatUuid(sample.id, id);
        EXPECT_EQ(read.key, sample.aggregate_id);
        EXPECT_EQ(made.key, sample.aggregate_id);
        EXPECT_EQ(read.payload, sample.payload);
        if (name != "outbox" && !sample.content_type) {
          EXPECT_EQ(read.content_type, "application/json");
        } else {
          EXPECT_EQ(read.content_type, sample.content_type);
        }
        EXPECT_EQ(read.id, std::string(id, sizeof(id)));
        EXPECT_EQ(read.event_type, sample.event_type);
        EXPECT_EQ(read.aggregate_type, sample.aggregate_type);
        EXPECT_EQ(read.created_at, sample.created_at);
        EXPECT_EQ(read.headers, (std::map<std::string, std::string>(sample.headers.begin(), sample.headers.end())));
      }
    }
  }
}

}  // namespace
}  // namespace outbox::format
