// matrix: H7
// The format of Debezium's outbox event router, to the byte. What is expected here was captured from Debezium
// Server 3.6 (test/t/280_debezium.pl compares with the running one), but for what says that the server stops there.
#include "format/connect_json.h"
#include "format/format.h"
#include "format/json_expander.h"
#include "format/record_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <optional>

namespace outbox::format {
namespace {

constexpr int64_t kCreatedAt = 1'700'000'000'120'000;

std::string Value(std::string_view payload, ExpandRules rules = {}) {
  JsonExpander expander(rules);
  std::string out;
  if (!expander.Expand(payload, &out)) {
    EXPECT_TRUE(out.empty());
    AppendConnectString(payload, &out);
  }
  return out;
}

TEST(ConnectJson, ExpandsAsDebeziumDoes) {
  const std::pair<const char*, const char*> kCaptured[] = {
      {R"({"a": 1, "b": [1, 2, 3], "c": {"d": null, "e": "x"}})", R"({"a":1,"b":[1,2,3],"c":{"e":"x"}})"},
      {"", "\"\""},
      {"   ", "\"   \""},
      {"Größe 42 € 😀", "\"Größe 42 € \\uD83D\\uDE00\""},
      {"\"a json string\"", R"("\"a json string\"")"},
      {"{not json", "\"{not json\""},
      {R"({"a": [1, null, 2]})", R"({"a":[1,null,2]})"},
      {R"({"a": null})", "{}"},
      {R"({"long": 1234567890123, "dec": 1.10, "exp": 1e3})", R"({"long":1234567890123,"dec":1.1,"exp":1000.0})"},
      {R"({"x": 1e400, "y": -1e400})", R"({"x":"Infinity","y":"-Infinity"})"},
      {R"({"e": [], "o": {}})", R"({"o":{}})"},
      {R"({"a": 1, "b": 2, "a": 3})", R"({"a":3,"b":2})"},
      {R"({"a": [1, "x"]})", R"("{\"a\": [1, \"x\"]}")"},
      {R"({"a": [{"b": 1}, {"c": 2}]})", R"({"a":[{"b":1,"c":null},{"b":null,"c":2}]})"},
      {"null", "\"null\""},
      {"42", "\"42\""},
      {R"({"u": "\u00e9\u20ac\ud83d\ude00 é/\\ \" \n \t \b \f \u0001 \u001f \u007f \u2028 😀", "sl": "a/b"})",
       "{\"u\":\"é€\\uD83D\\uDE00 é/\\\\ \\\" \\n \\t \\b \\f \\u0001 \\u001F \x7f \u2028 "
       "\\uD83D\\uDE00\",\"sl\":\"a/b\"}"},
      {R"(  {"a": 1})", R"("  {\"a\": 1}")"},
      {R"({"a": 1} trailing)", R"({"a":1})"},
      {"{}", "{}"},
      {"[]", "\"[]\""},
      {R"({"f": 0.1, "g": 1.0, "h": 100000000.0, "i": 1e7, "j": 1.5e-7, "k": -0.0, "l": 123456789.123456789, "m": 0.001})",
       R"({"f":0.1,"g":1.0,"h":1.0E8,"i":1.0E7,"j":1.5E-7,"k":-0.0,"l":1.2345678912345679E8,"m":0.001})"},
      {R"({"n": 0.0001, "o": 9999999.0, "p": 1234567.0, "q": -0, "r": 2147483648, "s": 9223372036854775807, "t": 5e-324})",
       R"({"n":1.0E-4,"o":9999999.0,"p":1234567.0,"q":0,"r":2147483648,"s":9223372036854775807,"t":4.9E-324})"},
      {R"({"u": 1.7976931348623157e308, "v": 2e-3, "w": 1E+2, "x": 123e-2})",
       R"({"u":1.7976931348623157E308,"v":0.002,"w":100.0,"x":1.23})"},
      {R"({"m": [1, 2147483648]})", R"("{\"m\": [1, 2147483648]}")"},
      {R"({"n": [[1], [2]]})", R"({"n":[[1],[2]]})"},
      {R"({"n": [[], [2]]})", R"("{\"n\": [[], [2]]}")"},
      {R"({"a": [null, null]})", R"("{\"a\": [null, null]}")"},
      {R"({"": 1})", R"("{\"\": 1}")"},
      {R"({"a.b": 2, "ä": true, "s": "\ud83d"})", R"({"a.b":2,"ä":true,"s":"\uD83D"})"},
      {R"({"a": [1.0, 2.5]})", R"({"a":[1.0,2.5]})"},
      {R"({"a": [{}, {}]})", R"({"a":[{},{}]})"},
      {R"({"a": [{"x": []}, {"x": [1]}]})", R"({"a":[{"x":[]},{"x":[1]}]})"},
      {R"({"a":[true,false,null],"b":["x",null]})", R"({"a":[true,false,null],"b":["x",null]})"},
      {R"({"a": [{"b": null}]})", R"({"a":[{}]})"},
      {R"({"x": {"y": {"z": [{"q": "w"}]}}})", R"({"x":{"y":{"z":[{"q":"w"}]}}})"},
      {R"({"a": 01})", R"("{\"a\": 01}")"},
      {R"({"a": 1.})", R"("{\"a\": 1.}")"},
      {R"({"a": .5})", R"("{\"a\": .5}")"},
      {R"({"a": NaN})", R"("{\"a\": NaN}")"},
      {R"({"a": 1,})", R"("{\"a\": 1,}")"},
      {"{'a': 1}", "\"{'a': 1}\""},
      {"{\"a\": \"x\ty\"}", R"("{\"a\": \"x\ty\"}")"},
      {R"({"a": 1 /* c */})", R"("{\"a\": 1 /* c */}")"},
      {R"({"a": "\x"})", R"("{\"a\": \"\\x\"}")"},
  };
  for (const auto& [payload, value] : kCaptured) {
    EXPECT_EQ(Value(payload), value) << payload;
  }
  ExpandRules keep;
  keep.keep_nulls = true;
  EXPECT_EQ(Value(R"({"a": null, "c": {"d": null}})", keep), R"({"a":null,"c":{"d":null}})");
  EXPECT_EQ(Value(R"({"a": [null, null]})", keep), R"({"a":[null,null]})");
  EXPECT_EQ(Value(R"({"a": [{"b": null}]})", keep), R"({"a":[{"b":null}]})");
  keep.keep_empty_arrays = true;
  EXPECT_EQ(Value(R"({"e": [], "n": [[], []]})", keep), R"({"e":[],"n":[[],[]]})");
}

TEST(ConnectJson, IsDecidedWhereDebeziumStops) {
  EXPECT_EQ(Value("[1, 2, 3]"), "\"[1, 2, 3]\"");
  EXPECT_EQ(Value(R"({"big": 12345678901234567890123})"), R"("{\"big\": 12345678901234567890123}")");
  EXPECT_EQ(Value(R"({"a": [{"b": 1}, {"b": "s"}]})"), R"("{\"a\": [{\"b\": 1}, {\"b\": \"s\"}]}")");
  EXPECT_EQ(Value(R"({"a": [{"b": 1}, {"c": 2}, null]})"), R"({"a":[{"b":1,"c":null},{"b":null,"c":2},null]})");
  // Debezium loses "y" here, or "x", by chance.
  EXPECT_EQ(Value(R"({"a": [{"b": {"x": 1}}, {"b": {"y": 2}}]})"),
            R"({"a":[{"b":{"x":1,"y":null}},{"b":{"x":null,"y":2}}]})");
}

TEST(ConnectJson, IsBounded) {
  const std::string deep = "{\"a\": " + std::string(999, '[') + "1" + std::string(999, ']') + "}";
  EXPECT_EQ(Value(deep).substr(0, 6), "{\"a\":[");
  EXPECT_EQ(Value("{\"a\": " + std::string(1000, '[') + "1" + std::string(1000, ']') + "}")[0], '"');
  EXPECT_EQ(Value("{\"a\": " + std::string(1000000, '[')).substr(0, 3), "\"{\\");
  EXPECT_EQ(Value("{\"a\": 0." + std::string(500, '0') + "1}"), "{\"a\":0.0}");
  EXPECT_EQ(Value("{\"a\": -1e-99999999999999999999}"), "{\"a\":-0.0}");
  EXPECT_EQ(Value("{\"a\": 1e99999999999999999999}"), "{\"a\":\"Infinity\"}");
  EXPECT_EQ(Value("{\"a\": 1" + std::string(1000, '0') + "}")[0], '"') << "more digits than Jackson reads";
  // Objects of one array, each with a name of its own: the square of it is not written.
  std::string wide = "{\"a\": [";
  std::string many = "{";
  for (int i = 0; i < 50000; ++i) {
    wide += (i == 0 ? "{\"k" : ",{\"k") + std::to_string(i) + "\": 1}";
    many += (i == 0 ? "\"k" : ",\"k") + std::to_string(i) + "\": " + std::to_string(i);
  }
  EXPECT_EQ(Value(wide + "]}")[0], '"');
  EXPECT_EQ(Value(many + ", \"k7\": 8}").substr(0, 40), "{\"k0\":0,\"k1\":1,\"k2\":2,\"k3\":3,\"k4\":4,\"k5\"");
  // Every beginning of a text is an end, too.
  const std::string text = R"({"a": [1, -2.5e+3, "x\u00e9\n", {"b": null, "c": true}], "d": false})";
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_NE(Value(text.substr(0, i))[0], '{') << i;
  }
}

// A value of two bytes takes a node, which is many times as large.
TEST(ConnectJson, TakesLittleMemory) {
  const auto ones = [](size_t count) {
    std::string text = R"({"a":[1)";
    for (size_t i = 1; i < count; ++i) {
      text += ",1";
    }
    return text + "]}";
  };
  // All that the default outbox.max_payload_size has room for, and of objects, whose types are as many.
  EXPECT_EQ(Value(ones(512 * 1024)), ones(512 * 1024));
  std::string objects = R"({"a":[{})";
  while (objects.size() < 1008 * 1024) {
    objects += ",{}";
  }
  EXPECT_EQ(Value(objects + "]}"), objects + "]}");
  EXPECT_EQ(Value(ones(1'100'000))[0], '"');
  // Not looked at at all, though it would become short.
  const size_t most = size_t{16} << 20;
  const std::string_view small = R"({"a":1})";
  EXPECT_EQ(Value(R"({"a":)" + std::string(most - small.size(), ' ') + "1}"), small);
  EXPECT_EQ(Value(R"({"a":)" + std::string(most - small.size() + 1, ' ') + "1}")[0], '"');
}

std::string Members(int from, int to) {
  std::string members;
  for (int i = from; i != to; i += from < to ? 1 : -1) {
    members += (i == from ? "\"k" : ",\"k") + std::to_string(i) + "\":" + std::to_string(i);
  }
  return members;
}

// More members than are looked through one by one.
TEST(ConnectJson, ExpandsLargeObjectsOfAnArray) {
  EXPECT_EQ(Value(R"({"a": [{"x":1,)" + Members(0, 40) + "},{" + Members(38, 4) + R"(,"y":2,"x":3}]})"),
            R"({"a":[{"x":1,)" + Members(0, 40) +
                R"(,"y":null},{"x":3,"k0":null,"k1":null,"k2":null,"k3":null,"k4":null,)" + Members(5, 39) +
                R"(,"k39":null,"y":2}]})");
  // What is new is found again in what comes later, and nested objects are merged as well.
  const std::string nested = R"({"k":{)" + Members(0, 20) + "}," + Members(0, 20) + "}";
  EXPECT_EQ(
      Value(R"({"a": [)" + nested + R"(,{"new":1},{"new":2,"k":{"n":1}},{"k":{"n":2,"k19":3}}]})"),
      R"({"a":[{"k":{)" + Members(0, 20) + R"(,"n":null},)" + Members(0, 20) + R"(,"new":null},)" +
          [] {
            std::string rest;
            const auto nulls = [](int to) {
              std::string text;
              for (int i = 0; i < to; ++i) {
                text += "\"k" + std::to_string(i) + "\":null,";
              }
              return text;
            };
            rest += R"({"k":null,)" + nulls(20) + R"("new":1},)";
            rest += R"({"k":{)" + nulls(20) + R"("n":1},)" + nulls(20) + R"("new":2},)";
            rest += R"({"k":{)" + nulls(19) + R"("k19":3,"n":2},)" + nulls(20) + R"("new":null})";
            return rest;
          }() +
          "]}");
  // Members without a type are passed over, however many.
  std::string nulls;
  for (int i = 0; i < 100; ++i) {
    nulls += "\"n" + std::to_string(i) + "\":null,";
  }
  EXPECT_EQ(Value("{" + nulls + Members(0, 30) + "}"), "{" + Members(0, 30) + "}");
  ExpandRules keep;
  keep.keep_nulls = true;
  EXPECT_EQ(Value(R"({"a": [{"o":null},{"o":{)" + Members(0, 20) + R"(}},{"o":{)" + Members(19, -1) + "}}]}", keep),
            R"({"a":[{"o":null},{"o":{)" + Members(0, 20) + R"(}},{"o":{)" + Members(0, 20) + "}}]}");
  // As many as may be together, whichever object has them; an object that is alone has none to grow with.
  EXPECT_EQ(Value(R"({"a": [{)" + Members(0, 1000) + "},{" + Members(999, -1) + "}]}")[0], '{');
  EXPECT_EQ(Value(R"({"a": [{)" + Members(0, 1001) + "},{" + Members(1000, -1) + "}]}")[0], '"');
  EXPECT_EQ(Value(R"({"a": [{"k": 1},{)" + Members(0, 1000) + "}]}")[0], '"');
  EXPECT_EQ(Value(R"({"a": [{)" + Members(0, 2000) + "}]}")[0], '{');
}

// Seconds of the processor, the least of a few.
double TimeOf(const std::string& payload) {
  double least = 0;
  for (int i = 0; i < 9; ++i) {
    const std::clock_t start = std::clock();
    Value(payload);
    const double time = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    least = i == 0 ? time : std::min(least, time);
  }
  return least;
}

TEST(ConnectJson, TakesTimeInProportionToThePayload) {
  const auto opposite = [](int members) {
    return R"({"a": [{)" + Members(0, members) + "},{" + Members(members, 0) + "}]}";
  };
  // Eight times as much takes ten times as long, on a machine whose caches others use 26 times; by comparing each with
  // each it was 64 times.
  EXPECT_LT(TimeOf(opposite(32000)), 40 * TimeOf(opposite(4000)));
  // Many objects of as many members as may be, in the same order and in another: 1.6 times as long, and 25 times it
  // was.
  std::string same;
  std::string turned;
  for (int i = 0; i < 100; ++i) {
    same += (i == 0 ? "{" : ",{") + Members(0, 1000) + "}";
    turned += (i == 0 ? "{" : ",{") + (i % 2 == 0 ? Members(0, 1000) : Members(999, -1)) + "}";
  }
  EXPECT_LT(TimeOf(R"({"a": [)" + turned + "]}"), 6 * TimeOf(R"({"a": [)" + same + "]}"));
}

TEST(ConnectJson, DoublesAsJavaWritesThem) {
  const std::pair<double, const char*> kDoubles[] = {{0.0, "0.0"},
                                                     {2e-3, "0.002"},
                                                     {9.999e-4, "9.999E-4"},
                                                     {1e-3, "0.001"},
                                                     {9999999.999, "9999999.999"},
                                                     {1e7, "1.0E7"},
                                                     {123456.5, "123456.5"},
                                                     {1e23, "1.0E23"},
                                                     {2e23, "2.0E23"},
                                                     {std::numeric_limits<double>::denorm_min(), "4.9E-324"},
                                                     {9e-324, "9.9E-324"},
                                                     {100, "100.0"},
                                                     {std::numeric_limits<double>::quiet_NaN(), "\"NaN\""}};
  for (const auto& [value, text] : kDoubles) {
    std::string out;
    AppendJavaDouble(value, &out);
    EXPECT_EQ(out, text);
  }
}

// --- records ---

struct Sample {
  std::optional<std::string> key = "k1";
  std::optional<std::string> payload = "{\"a\": 1}";
  std::optional<std::string> content_type;
  std::vector<std::pair<std::string, std::string>> headers;
};

// "key|value|name=value;..." with "-" for NULL, "+" before fields that are alone and "@n" before those with a
// partition; or what is wrong.
std::string Show(const char* wrapper, const sink::OptionList& options, const Sample& sample) {
  RouteConfig config;
  config.kind = sink::FindKind(wrapper);
  config.format = FindFormat("debezium");
  config.options = options;
  const Use use{config.kind, config.form, &options, {}};
  for (const auto& [name, value] : options) {
    const sink::RouteOption* option = FindRouteOption(*config.kind, *config.format, name);
    if (option == nullptr) {
      return "no such option";
    }
    if (const sink::OptionProblem problem = CheckRouteOption(*option, value); !problem.ok()) {
      return std::string(problem.sqlstate) + " " + problem.message + ". " + problem.detail + " " + problem.hint;
    }
  }
  if (const sink::OptionProblem problem = config.format->check(use); !problem.ok()) {
    return std::string(problem.sqlstate) + " " + problem.message;
  }
  TemplateError template_error;
  const auto spec = RouteSpec::Make(config, &template_error);
  EXPECT_NE(spec, nullptr) << template_error.message;
  std::string packed_headers;
  for (const auto& [name, value] : sample.headers) {
    for (const std::string& text : {name, value}) {
      const auto size = static_cast<uint32_t>(text.size());
      packed_headers.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(text);
    }
  }
  const auto view = [](const std::optional<std::string>& text) {
    return text ? std::string_view(*text) : std::string_view();
  };
  Event event;
  event.created_at = kCreatedAt;
  event.id = MakeUuid7(kCreatedAt, 0x123456789abcdef);
  event.aggregate_type = "order";
  event.event_type = "Created";
  event.aggregate_id = view(sample.key);
  event.payload = view(sample.payload);
  event.content_type = view(sample.content_type);
  event.headers.packed = sample.headers.empty() ? std::string_view() : packed_headers;
  RecordFormat format(spec);
  std::string packed;
  Error error;
  if (!format.Append(event, kCreatedAt, &packed, &error)) {
    EXPECT_EQ(error.error_class, ErrorClass::kMessage);
    return error.code;
  }
  sink::RecordReader reader(packed);
  sink::Record record;
  EXPECT_TRUE(reader.Next(&record));
  EXPECT_EQ(record.topic, "outbox.event.order");
  const auto show = [](std::string_view text) { return IsNull(text) ? "-" : std::string(text); };
  std::string text = show(record.key) + "|" + show(record.body) + "|";
  text += record.partition >= 0 ? "@" + std::to_string(record.partition) : "";
  text += record.fields_only ? "+" : "";
  for (const sink::Field& field : record.fields) {
    const std::string_view value = field.name == "id" || field.name == "ID" ? "ID" : field.value;
    text += std::string(field.name) + "=" + show(value) + ";";
  }
  return text;
}

TEST(Debezium, DefaultIsPayloadKeyAndId) {
  EXPECT_EQ(Show("outbox_kafka", {}, {}), "k1|{\"a\": 1}|id=ID;");
  Sample sample;
  sample.headers = {{"traceparent", "00-x"}};
  sample.key.reset();
  EXPECT_EQ(Show("outbox_kafka", {}, sample), "-|{\"a\": 1}|id=ID;traceparent=00-x;");
  sample.payload.reset();
  EXPECT_EQ(Show("outbox_kafka", {}, sample), "-|-|id=ID;traceparent=00-x;");
  sample.payload = "  ";
  sample.content_type = "text/plain";
  EXPECT_EQ(Show("outbox_kafka", {}, sample), "-|  |id=ID;traceparent=00-x;");
}

TEST(Debezium, Placement) {
  const auto with = [](const char* placement, const Sample& sample = {}) {
    return Show("outbox_kafka", {{"table.fields.additional.placement", placement}}, sample);
  };
  EXPECT_EQ(with("type:header:eventType, aggregatetype:header"),
            "k1|{\"a\": 1}|id=ID;eventType=Created;aggregatetype=order;");
  EXPECT_EQ(with("timestamp:header:at"), "k1|{\"a\": 1}|id=ID;at=2023-11-14T22:13:20.12Z;");
  EXPECT_EQ(with("type:envelope:eventType,aggregateid:envelope,shard:envelope:shard:number"),
            R"(k1|{"payload":"{\"a\": 1}","eventType":"Created","aggregateid":"k1","shard":null}|id=ID;)");
  Sample sample;
  sample.headers = {{"shard", "2"}, {"tenant", "acme"}};
  EXPECT_EQ(with("shard:envelope:shard:number", sample), R"(k1|{"payload":"{\"a\": 1}","shard":2}|id=ID;tenant=acme;)");
  EXPECT_EQ(with("shard:envelope", sample), R"(k1|{"payload":"{\"a\": 1}","shard":"2"}|id=ID;tenant=acme;)");
  EXPECT_EQ(with("shard:partition", sample), "k1|{\"a\": 1}|@2id=ID;tenant=acme;");
  EXPECT_EQ(with("other:partition", sample), "k1|{\"a\": 1}|id=ID;shard=2;tenant=acme;") << "a column that is NULL";
  EXPECT_EQ(with("missing:header", sample), "k1|{\"a\": 1}|id=ID;missing=-;shard=2;tenant=acme;");
  EXPECT_EQ(with("tenant:partition", sample), "INVALID_PARTITION");
  EXPECT_EQ(with("type:header:tenant", sample), "HEADER_NAME_TAKEN");
  for (const char* both : {"type:header:tenant,tenant:header:t", "tenant:header:t,type:header:tenant"}) {
    EXPECT_NE(with(both, sample).find("tenant=Created;"), std::string::npos) << both << ": " << with(both, sample);
  }
  EXPECT_EQ(Show("outbox_kafka", {{"event.headers", "placed"}}, sample), "k1|{\"a\": 1}|id=ID;");
  EXPECT_EQ(Show("outbox_kafka",
                 {{"event.headers", "placed"}, {"table.fields.additional.placement", "tenant:header:t"}}, sample),
            "k1|{\"a\": 1}|id=ID;t=acme;");
  sample.headers = {{"shard", "-1"}};
  EXPECT_EQ(with("shard:partition", sample), "INVALID_PARTITION");
  sample.headers = {{"shard", "01x"}};
  EXPECT_EQ(with("shard:envelope:s:number", sample), R"(k1|{"payload":"{\"a\": 1}","s":"01x"}|id=ID;)");
}

TEST(Debezium, Converters) {
  Sample sample;
  sample.headers = {{"tenant", "a\"b"}};
  const sink::OptionList json = {{"key.converter", "json"},
                                 {"value.converter", "org.apache.kafka.connect.json.JsonConverter"},
                                 {"header.converter", "json"}};
  EXPECT_EQ(Show("outbox_kafka", json, sample), R"("k1"|"{\"a\": 1}"|id=ID;tenant="a\"b";)");
  sample.key.reset();
  sample.payload.reset();
  EXPECT_EQ(Show("outbox_kafka", json, sample), R"(null|null|id=ID;tenant="a\"b";)");
  sample.payload = std::string("\x00\xff", 2);
  sample.content_type = "application/octet-stream";
  EXPECT_EQ(Show("outbox_kafka", json, sample), R"(null|"AP8="|id=ID;tenant="a\"b";)");
  EXPECT_EQ(Show("outbox_kafka", {{"table.expand.json.payload", "true"}}, {}), "k1|{\"a\":1}|id=ID;");
  EXPECT_EQ(Show("outbox_kafka",
                 {{"table.expand.json.payload", "true"}, {"table.fields.additional.placement", "type:envelope"}}, {}),
            R"(k1|{"payload":{"a":1},"type":"Created"}|id=ID;)");
}

TEST(Debezium, WhatIsNoUtf8) {
  Sample sample;
  sample.key = "caf\xe9";
  sample.headers = {{"tenant", "\xe9"}};
  sample.payload = "\"\xe9\"";
  EXPECT_EQ(Show("outbox_kafka", {}, sample), "caf\xe9|\"\xe9\"|id=ID;tenant=\xe9;") << "bytes as they are";
  EXPECT_EQ(Show("outbox_kafka", {{"value.converter", "json"}}, sample), "caf\xe9|\"Iuki\"|id=ID;tenant=\xe9;");
  EXPECT_EQ(Show("outbox_kafka", {{"key.converter", "json"}}, sample), "NOT_UTF8");
  EXPECT_EQ(Show("outbox_kafka", {{"header.converter", "json"}}, sample), "NOT_UTF8");
  EXPECT_EQ(Show("outbox_redis", {{"key.converter", "json"}}, sample), "NOT_UTF8");
  EXPECT_EQ(Show("outbox_kafka", {{"table.fields.additional.placement", "tenant:envelope"}}, sample), "NOT_UTF8");
}

TEST(Debezium, TombstoneOnEmptyPayload) {
  const sink::OptionList options = {{"route.tombstone.on.empty.payload", "true"},
                                    {"table.fields.additional.placement", "type:envelope"}};
  Sample sample;
  EXPECT_EQ(Show("outbox_kafka", options, sample), R"(k1|{"payload":"{\"a\": 1}","type":"Created"}|id=ID;)");
  for (const std::optional<std::string>& payload :
       {std::optional<std::string>(), std::optional<std::string>(""), std::optional<std::string>(" \n\t")}) {
    sample.payload = payload;
    sample.content_type = payload ? std::optional<std::string>("TEXT/PLAIN; charset=utf-8") : std::nullopt;
    EXPECT_EQ(Show("outbox_kafka", options, sample), "k1|-|id=ID;");
  }
}

TEST(Debezium, RedisStreams) {
  Sample sample;
  sample.headers = {{"traceparent", "00-x"}};
  EXPECT_EQ(Show("outbox_redis", {}, sample), "k1|{\"a\": 1}|+k1={\"a\": 1};");
  const sink::OptionList extended = {{"message.format", "extended"},
                                     {"table.fields.additional.placement", "type:header:eventType"},
                                     {"header.converter", "json"}};
  EXPECT_EQ(Show("outbox_redis", extended, sample),
            "k1|{\"a\": 1}|+key=k1;value={\"a\": 1};ID=ID;EVENTTYPE=\"Created\";TRACEPARENT=\"00-x\";");
  sample.key.reset();
  sample.payload.reset();
  EXPECT_EQ(Show("outbox_redis", {}, sample), "-|-|+default=default;");
  EXPECT_EQ(Show("outbox_redis", {{"null.key", ""}, {"null.value", "none"}}, sample), "-|-|+=none;");
  EXPECT_EQ(Show("outbox_redis", {{"message.format", "extended"}}, sample),
            "-|-|+key=default;value=default;ID=ID;TRACEPARENT=00-x;");
  // Names are in upper case there, so that one of any case is taken; at Kafka they are not.
  sample.headers = {{"EVENTtype", "mine"}};
  EXPECT_EQ(Show("outbox_redis", extended, sample), "HEADER_NAME_TAKEN");
  EXPECT_EQ(Show("outbox_kafka", {{"table.fields.additional.placement", "type:header:eventType"}}, sample),
            "-|-|id=ID;eventType=Created;EVENTtype=mine;");
}

TEST(Debezium, RefusesWhatItCannotBe) {
  const auto placement = [](const char* text, const char* wrapper = "outbox_kafka") {
    return Show(wrapper, {{"table.fields.additional.placement", text}}, {});
  };
  for (const char* bad :
       {"", " ", "type", "type:", ":header", "type:header:", "type:header,", ",type:header", "type:header:a:number:x",
        "payload:header", "type:partition", "id:partition", "type:header:a:text", "type:envelope:payload",
        "type:header,type:header", "a:partition,b:partition"}) {
    EXPECT_EQ(placement(bad).substr(0, 5), "22023") << bad << ": " << placement(bad);
  }
  EXPECT_NE(placement("type:heeder:eventType").find("Did you mean \"header\"?"), std::string::npos)
      << placement("type:heeder:eventType");
  EXPECT_EQ(placement("shard:partition", "outbox_redis").substr(0, 5), "0A000");
  EXPECT_EQ(Show("outbox_kafka", {{"message.format", "compact"}}, {}).substr(0, 5), "0A000");
  EXPECT_EQ(
      Show("outbox_kafka", {{"value.converter", "string"}, {"table.expand.json.payload", "true"}}, {}).substr(0, 5),
      "22023");
  EXPECT_EQ(Show("outbox_kafka", {{"value.converter", "io.confluent.connect.avro.AvroConverter"}}, {}).substr(0, 5),
            "22023");
  EXPECT_EQ(Show("outbox_redis", {{"message.format", "wide"}}, {}).substr(0, 5), "22023");
}

}  // namespace
}  // namespace outbox::format
