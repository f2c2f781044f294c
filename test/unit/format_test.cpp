// Every format, to the byte, by kind of destination; and read back by another program, for random events: nothing that
// an event has is lost. A failure tells the seed; OUTBOX_SEED=n runs that case alone, OUTBOX_CASES=n so many.
#include "format_sample.h"

#include <gtest/gtest.h>

#include <malloc.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "base/uri.h"
#include "base/utf8.h"
#include "format/json_writer.h"

namespace outbox::format {
namespace {

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

// One very large event does not stay in the memory of each lane that has met one. (Under a sanitizer nothing is
// counted.)
TEST(Formats, GiveBackWhatALargeEventTook) {
  Sample sample;
  sample.payload = '"' + std::string(size_t{64} << 20, 'x') + '"';
  const Event event = sample.Make();
  for (const char* name : {"cloudevents-json", "debezium"}) {
    RouteConfig config = Config(name, "outbox_kafka");
    if (std::string_view(name) == "debezium") {
      config.options = {{"value.converter", "json"}};
    }
    RecordFormat format(Route(config));
    const size_t before = mallinfo2().hblkhd;
    std::string out;
    Error error;
    ASSERT_TRUE(format.Append(event, kCreatedAt, &out, &error)) << error.message;
    ASSERT_GT(out.size(), size_t{64} << 20);
    std::string().swap(out);
    EXPECT_LT(mallinfo2().hblkhd, before + (size_t{1} << 20)) << name;
  }
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

TEST(Uri, AsReadersHaveIt) {
  for (const char* good : {"/", "/shop", "shop/orders", "https://shop.example/a?b=c#d", "urn:uuid:1", "a%20b", "x.y"}) {
    EXPECT_TRUE(IsUriReference(good)) << good;
  }
  for (const char* bad : {"", " ", "a b", "a%2", "%zz", "1a:b", "caf\xc3\xa9", "[::1]", "a\nb", "a{b}", ":a", "a:"}) {
    EXPECT_FALSE(IsUriReference(bad)) << bad;
  }
  EXPECT_FALSE(IsUriReference(std::string_view("a\0b", 3)));
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

// --- decode(encode(x)) = x: the readers are test/unit/format_reader.py, in Python's own JSON, UTF-8 and base64 ---

std::string Hex(std::string_view bytes) {
  std::string hex = "\"";
  for (const char c : bytes) {
    hex.push_back("0123456789abcdef"[static_cast<unsigned char>(c) >> 4]);
    hex.push_back("0123456789abcdef"[static_cast<unsigned char>(c) & 15]);
  }
  return hex + "\"";
}

std::string HexOrNull(const std::optional<std::string>& bytes) {
  return bytes ? Hex(*bytes) : "null";
}

class RandomEvents {
 public:
  explicit RandomEvents(uint64_t seed) : random_(seed) {}

  uint64_t Below(uint64_t n) { return random_() % n; }

  Sample Next() {
    Sample sample;
    sample.created_at = static_cast<int64_t>(Below(uint64_t{1} << 53));
    for (uint8_t& byte : sample.id) {
      byte = static_cast<uint8_t>(Below(256));
    }
    sample.aggregate_type = Below(8) == 0 ? Text(4) : "t" + Plain(8);
    sample.event_type = Below(12) == 0 ? Text(3) : "e" + Plain(8);
    sample.aggregate_id.reset();
    if (Below(5) != 0) {
      sample.aggregate_id = Below(4) == 0 ? Text(Below(16) == 0 ? 400 : 6) : "k" + Plain(8);
    }
    Payload(&sample);
    std::map<std::string, std::string> headers;
    for (uint64_t n = Below(6); n > 0; --n) {
      headers[Name()] = Below(4) == 0 ? "https://a.example/b" : Below(200) == 0 ? Long() : Text(6);
    }
    if (Below(3) == 0) {
      headers["shard"] = Below(8) == 0 ? Text(3) : std::to_string(Below(100));
    }
    sample.headers.assign(headers.begin(), headers.end());
    return sample;
  }

 private:
  template <size_t kCount>
  std::string Join(const char* const (&pieces)[kCount], uint64_t longest) {
    std::string made;
    for (uint64_t n = Below(longest + 1); n > 0; --n) {
      made += pieces[Below(kCount)];
    }
    return made;
  }

  // No control characters.
  std::string Plain(uint64_t longest) {
    constexpr const char* kPieces[] = {"a",
                                       "Z",
                                       "7",
                                       " ",
                                       "\"",
                                       "\\",
                                       "/",
                                       "=",
                                       "%",
                                       "{",
                                       ",",
                                       "\xc3\xa9",
                                       "\xc2\xa0",
                                       "\xe2\x82\xac",
                                       "\'",
                                       "\\u",
                                       "\\n",
                                       "\xe2\x80\xa8",
                                       "\xef\xbb\xbf",
                                       "\xf0\x9f\x98\x80",
                                       "\xf4\x8f\xbf\xbf"};
    return Join(kPieces, longest);
  }
  // Whatever a database in UTF-8 can hold.
  std::string Text(uint64_t longest) {
    constexpr const char* kPieces[] = {"a",
                                       "0",
                                       "\"",
                                       "\\",
                                       "\n",
                                       "\r",
                                       "\t",
                                       "\b",
                                       "\f",
                                       "\x01",
                                       "\x1f",
                                       "\x7f",
                                       "\xc2\x80",
                                       "\xc2\x85",
                                       "\xc2\x9f",
                                       "\xc2\xa0",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf0\x9f\x98\x80",
                                       " ",
                                       "</",
                                       "\xc3\xa9",
                                       "e\xcc\x81",
                                       "\xe2\x80\xa9",
                                       "\xf4\x8f\xbf\xbf",
                                       "\\ud83d"};
    return Join(kPieces, longest);
  }
  std::string Long() {
    const std::string piece = Text(3) + "x";
    std::string made;
    for (uint64_t size = 60'000 + Below(20'000); made.size() < size;) {
      made += piece;
    }
    return made;
  }
  // Of a header, as emit() takes them: not empty, none of the reserved ones.
  std::string Name() {
    constexpr const char* kKnown[] = {
        "traceparent", "tracestate",  "baggage",     "schema_version",       "dataschema",           "source",
        "data",        "time",        "specversion", "datacontenttype",      "schemaversion",        "sequence",
        "subject",     "data_base64", "event",       "aggregatetype",        "aggregateid",          "value",
        "eventType",   "EVENTtype",   "CE-x",        "twentyletters4567890", "twentyoneletters67890"};
    constexpr const char* kPieces[] = {
        "a", "b", "7", "-", "_", "X", ".", " ", ":", "h:", "\xc3\xa9", "\xf0\x9f\x98\x80", "\n"};
    if (Below(3) == 0) {
      return kKnown[Below(std::size(kKnown))];
    }
    if (Below(40) == 0) {
      return Below(2) == 0 ? "ce_" + Join(kPieces, 3) : "Ce_id";
    }
    return Below(400) == 0 ? "n" + std::string(32'766, 'm') : "n" + Join(kPieces, 24);
  }

  std::string Json(int depth) {
    // What readers round, cut or refuse is among them.
    constexpr const char* kScalars[] = {"null",
                                        "true",
                                        "false",
                                        "0",
                                        "-0",
                                        "7",
                                        "-1.50",
                                        "0.1",
                                        "1E+2",
                                        "1e-7",
                                        "123456789.123456789",
                                        "9007199254740993",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "12345678901234567890123",
                                        "1e400",
                                        "-1e400",
                                        "1e-400",
                                        "5e-324",
                                        "\"\"",
                                        "\"text\"",
                                        "\"\\u0041\\n\\\\\\/\\\"\"",
                                        "\"\\ud83d\\ude00\"",
                                        "\"\\ud83d\"",
                                        "\"\\u0000\"",
                                        "\"\xc3\xa9\"",
                                        "\"\xf0\x9f\x98\x80\"",
                                        "\"\xe2\x80\xa8\x7f\""};
    constexpr const char* kNames[] = {"a", "b", "\xc3\xa9", "a.b", "\\u0061", "__proto__", "\xf0\x9f\x98\x80"};
    constexpr const char* kSpaces[] = {"", "", " ", "\n\t"};
    const auto space = [&] { return kSpaces[Below(std::size(kSpaces))]; };
    const uint64_t kind = Below(depth > 3 ? 3 : 6);
    if (kind < 3) {
      return kScalars[Below(std::size(kScalars))];
    }
    std::string made = kind == 3 ? "[" : "{";
    for (uint64_t n = Below(5), i = 0; i < n; ++i) {
      made += i == 0 ? space() : std::string(space()) + ",";
      if (kind != 3) {
        made += space() + ("\"" + std::string(kNames[Below(std::size(kNames))])) + "\"" + space() + ":";
      }
      made += space() + Json(depth + 1);
    }
    return made + space() + (kind == 3 ? "]" : "}");
  }

  void Payload(Sample* sample) {
    switch (Below(8)) {
      case 0:
        sample->payload.reset();
        break;
      case 1:
        sample->content_type = Below(2) == 0 ? "text/plain; charset=utf-8" : "application/soap+xml";
        sample->payload = Below(100) == 0 ? Long() : Text(30);
        break;
      case 2: {
        constexpr const char* kTypes[] = {"application/octet-stream",
                                          "text/plain",
                                          "application/json",
                                          "text/csv; a=\"; b\"; charset=\"UTF-16LE\"",
                                          "Application/CloudEvents+json",
                                          "text/xml; charset=US-ascii"};
        sample->content_type = kTypes[Below(std::size(kTypes))];
        sample->payload = "";
        for (uint64_t n = Below(40); n > 0; --n) {
          *sample->payload += static_cast<char>(Below(256));
        }
        break;
      }
      case 3:
        sample->content_type = std::array{"application/json", "application/vnd.a+json ; v=1",
                                          "application/json; charset=Latin1"}[Below(3)];
        sample->payload = Below(3) == 0 ? Text(5) : Json(0);
        break;
      default:
        sample->payload = Below(300) == 0 ? "[\"" + std::string(70'000, 'y') + "\"]"
                                          : (Below(8) == 0 ? " \n" : "") + Json(0) + (Below(8) == 0 ? " " : "");
    }
  }

  std::mt19937_64 random_;
};

// One case, as a line of JSON with all text in hexadecimal.
std::string CaseLine(const RouteConfig& config, uint64_t seed, const Sample& sample, const Made& made) {
  char id[kUuidTextLength];
  FormatUuid(sample.id, id);
  std::string line = "{\"format\":\"" + std::string(config.format->name) + "\",\"wrapper\":\"" + config.kind->wrapper +
                     "\",\"seed\":" + std::to_string(seed) + ",\"options\":{";
  for (const auto& [name, value] : config.options) {
    line += (line.back() == '{' ? "\"" : ",\"") + name + "\":\"" + value + "\"";
  }
  line += "},\"event\":{\"id\":\"" + std::string(id, sizeof(id)) +
          "\",\"created_at\":" + std::to_string(sample.created_at) +
          ",\"aggregate_type\":" + Hex(sample.aggregate_type) + ",\"aggregate_id\":" + HexOrNull(sample.aggregate_id) +
          ",\"event_type\":" + Hex(sample.event_type) + ",\"payload\":" + HexOrNull(sample.payload) +
          ",\"content_type\":" + HexOrNull(sample.content_type) + ",\"headers\":[";
  for (const auto& [name, value] : sample.headers) {
    line += (line.back() == '[' ? "[" : ",[") + Hex(name) + "," + Hex(value) + "]";
  }
  line += "]},\"error\":\"" + made.error + "\",\"key\":" + HexOrNull(made.key) + ",\"body\":" + HexOrNull(made.body) +
          ",\"fields_only\":" + (made.fields_only ? "true" : "false") +
          ",\"partition\":" + std::to_string(made.partition) + ",\"fields\":[";
  for (const auto& [name, value] : made.fields) {
    line += (line.back() == '[' ? "[" : ",[") + Hex(name) + "," + HexOrNull(value) + "]";
  }
  return line + "]}\n";
}

TEST(Formats, ReadBackWhatWasWritten) {
  if (std::system("python3 -c '' >/dev/null 2>&1") != 0) {  // NOLINT(concurrency-mt-unsafe)
    GTEST_SKIP() << "no python3 to read with";
  }
  const std::string placed =
      "type:header:eventType,aggregatetype:header:aggregate,timestamp:header:at,shard:header,missing:header";
  const std::vector<std::pair<const char*, sink::OptionList>> routes = {
      {"outbox", {}},
      {"payload", {}},
      {"cloudevents", {}},
      {"cloudevents-json", {}},
      {"debezium", {}},
      {"debezium", {{"table.fields.additional.placement", placed}, {"event.headers", "placed"}}},
      {"debezium",
       {{"table.fields.additional.placement", "timestamp:header:at,shard:header:shard:number"},
        {"key.converter", "json"},
        {"value.converter", "json"},
        {"header.converter", "json"}}},
      {"debezium",
       {{"table.fields.additional.placement",
         "type:envelope,id:envelope:event,timestamp:envelope,shard:envelope:shard:number"},
        {"route.tombstone.on.empty.payload", "true"}}},
      {"debezium", {{"table.expand.json.payload", "true"}}},
      {"debezium",
       {{"table.expand.json.payload", "true"},
        {"table.json.payload.null.behavior", "optional_bytes"},
        {"table.json.payload.empty.array.behavior", "optional_string"},
        {"table.fields.additional.placement", "type:envelope"}}},
      {"debezium", {{"table.fields.additional.placement", "shard:partition"}}},
      {"debezium",
       {{"message.format", "extended"}, {"header.converter", "json"}, {"table.fields.additional.placement", placed}}},
  };
  const char* wanted = std::getenv("OUTBOX_CASES");
  const uint64_t cases = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 20000;
  const char* one = std::getenv("OUTBOX_SEED");
  const std::string name = testing::TempDir() + "outbox-formats." + std::to_string(getpid());
  std::ofstream file(name);
  std::set<std::string> formats;
  for (const auto& [format_name, options] : routes) {
    for (const char* wrapper : {"outbox_kafka", "outbox_redis"}) {
      RouteConfig config = Config(format_name, wrapper);
      config.options = options;
      if (config.format->check != nullptr &&
          !config.format->check({config.kind, config.form, &config.options, {}}).ok()) {
        continue;  // not for this destination
      }
      formats.insert(std::string(format_name) + wrapper);
      RecordFormat format(Route(config));
      const uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : 1;
      const uint64_t last = one != nullptr ? first : cases / 20;
      for (uint64_t seed = first; seed <= last; ++seed) {
        Sample sample = RandomEvents(seed).Next();
        const Made made = Append(&format, sample.Make());
        file << CaseLine(config, seed, sample, made);
      }
    }
  }
  file.close();
  EXPECT_EQ(formats.size(), 2 * Formats().size()) << "a format has no reader here";
  const std::string command = "python3 '" OUTBOX_SOURCE_DIR "/test/unit/format_reader.py' '" + name + "' >&2";
  EXPECT_EQ(std::system(command.c_str()), 0);  // NOLINT(concurrency-mt-unsafe)
  std::remove(name.c_str());
}

}  // namespace
}  // namespace outbox::format
