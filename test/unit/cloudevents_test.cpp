// CloudEvents, binary and structured, to the byte. Read back for random events: format_test.cpp.
#include "format_sample.h"

#include <map>

namespace outbox::format {
namespace {

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
  EXPECT_EQ(Data("<a/>", "Application/XML; charset=utf-8"), "\"Application/XML; charset=utf-8\",\"data\":\"<a/>\"");
  EXPECT_EQ(Data("{}\n{}", "application/x-ndjson"), "\"application/x-ndjson\",\"data\":\"{}\\n{}\"");
  EXPECT_EQ(Data("\xff", "text/plain"), "\"text/plain\",\"data_base64\":\"/w==\"");
  EXPECT_EQ(Data("", "application/octet-stream"), "\"application/octet-stream\",\"data_base64\":\"\"");
}

// Bytes that are UTF-8 by chance, under a content type that says they are something else.
TEST(CloudEvents, DataInAnotherCharset) {
  const auto in = [](const std::string& payload, const std::string& type) {
    const std::string data = Data(payload, type);
    return data.substr(data.rfind(",\""));
  };
  const std::string text = ",\"data\":\"\xC3\xA9\"";
  const std::string bytes = ",\"data_base64\":\"w6k=\"";
  for (const char* type :
       {"text/plain", "text/plain; charset=utf-8", "text/plain;charset=UTF-8", "text/plain; Charset=\"Utf-8\"",
        "text/plain; charset=us-ascii", "text/plain ; format=flowed; charset=UTF-8 ; x=y", "text/plain; charset=utf8",
        "text/plain; note=\"a; charset=latin1\"", "text/plain; xcharset=latin1", "text/plain; charset"}) {
    EXPECT_EQ(in("\xC3\xA9", type), text) << type;
  }
  for (const char* type :
       {"text/plain; charset=iso-8859-1", "text/plain;CHARSET=\"ISO-8859-1\"", "application/xml; charset=utf-16",
        "text/csv; header=present ; charset = windows-1252", "text/plain; note=\"a\\\";\"; charset=latin1",
        "text/plain; charset=utf-8; charset=latin1", "application/json; charset=iso-8859-1",
        "text/plain; charset=", "text/plain; charset=\"latin1"}) {
    EXPECT_EQ(in("\xC3\xA9", type), bytes) << type;
  }
  EXPECT_EQ(in(std::string("\0A\0B\0C\0001", 8), "text/csv; charset=utf-16be"), ",\"data_base64\":\"AEEAQgBDADE=\"");
  EXPECT_EQ(in("{\"a\": 1}", "application/json; charset=UTF-8"), ",\"data\":{\"a\": 1}");
  EXPECT_EQ(in("{\"a\": 1}", "application/json; charset=utf-16"), ",\"data_base64\":\"eyJhIjogMX0=\"");
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
  sample.event_type = "caf\xe9";
  EXPECT_EQ(Show(Config("cloudevents", "outbox_kafka"), sample), "NO_CLOUDEVENT");
  EXPECT_EQ(Show(Config("cloudevents-json", "outbox_redis"), sample), "NO_CLOUDEVENT");
}

TEST(CloudEvents, WhatIsNoUtf8) {
  Sample sample;
  sample.aggregate_type = "Line\xe9";
  sample.aggregate_id = "\xff\xfe";
  sample.headers = {{"tenant", "acm\xe9"}, {"X\xe9", "\xe9"}, {"schema_version", "\xe9"}};
  sample.payload = "{\"a\": \"\xe9\"}";
  const std::string event =
      "{\"specversion\":\"1.0\",\"id\":\"018bcfe5-687b-71c8-8123-456789abcdef\",\"source\":\"/outbox/shop\","
      "\"type\":\"line.added\",\"time\":\"2023-11-14T22:13:20.123456Z\",\"sequence\":\"1700000000123456\","
      "\"datacontenttype\":\"application/json\",\"data_base64\":\"eyJhIjogIukifQ==\"}";
  const std::string headers = "tenant=acm\xe9;X\xe9=\xe9;schema_version=\xe9;";
  EXPECT_EQ(Show(Config("cloudevents-json", "outbox_kafka"), sample),
            "\xff\xfe|" + event + "|content-type=application/cloudevents+json; charset=UTF-8;" + headers);
  EXPECT_EQ(Show(Config("cloudevents", "outbox_kafka"), sample),
            "\xff\xfe|{\"a\": \"\xe9\"}|ce_specversion=1.0;ce_id=018bcfe5-687b-71c8-8123-456789abcdef;"
            "ce_source=/outbox/shop;ce_type=line.added;ce_time=2023-11-14T22:13:20.123456Z;"
            "ce_sequence=1700000000123456;" +
                headers + "content-type=application/json;");
}

// The type String of CloudEvents has no noncharacters, which UTF-8 has.
TEST(CloudEvents, WhatIsNoCharacter) {
  for (const std::string none : {"\xEF\xB7\x90", "\xEF\xB7\xAF", "\xEF\xBF\xBE", "\xEF\xBF\xBF", "\xF0\x9F\xBF\xBE",
                                 "\xF1\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"}) {
    Sample sample;
    sample.aggregate_type = none;
    sample.aggregate_id = "a" + none;
    sample.headers = {{"tenant", none + "b"}, {"schema_version", none}};
    const std::string shown = Show(Config("cloudevents", "outbox_kafka"), sample);
    for (const char* attribute :
         {"ce_subject", "ce_aggregatetype", "ce_partitionkey", "ce_tenant", "ce_schemaversion"}) {
      EXPECT_EQ(shown.find(attribute), shown.npos) << shown;
    }
    EXPECT_TRUE(shown.starts_with("a" + none + "|")) << "the key is the record's in any case: " << shown;
    EXPECT_NE(shown.find(";tenant=" + none + "b;schema_version=" + none + ";"), shown.npos) << shown;
    const std::string structured = Show(Config("cloudevents-json", "outbox_redis"), sample);
    EXPECT_EQ(structured.substr(structured.find("event=")).find(none), structured.npos) << structured;
    sample = {};
    sample.event_type = "line" + none;
    EXPECT_EQ(Show(Config("cloudevents", "outbox_kafka"), sample), "NO_CLOUDEVENT");
    EXPECT_EQ(Show(Config("cloudevents-json", "outbox_redis"), sample), "NO_CLOUDEVENT");
  }
  for (const std::string neighbour :
       {"\xEF\xB7\x8F", "\xEF\xB7\xB0", "\xEF\xBF\xBD", "\xF0\x90\x80\x80", "\xF0\x9F\xBF\xBD", "\xF0\xAF\xBE\xBF",
        "\xEE\xBF\xBF", "\xE1\xBF\xBE", "\xF0\x9E\xBF\xBF"}) {
    Sample sample;
    sample.aggregate_id = neighbour;
    EXPECT_NE(Show(Config("cloudevents", "outbox_kafka"), sample).find("ce_subject=" + neighbour + ";"),
              std::string::npos)
        << neighbour;
  }
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

}  // namespace
}  // namespace outbox::format
