// The plain format, to the byte, and routes: what consumers were promised.
#include "format/record_format.h"

#include <gtest/gtest.h>

#include <map>

#include "sink/record.h"

namespace outbox::format {
namespace {

constexpr int64_t kCreatedAt = 1'700'000'000'123'456;

std::shared_ptr<const RouteSpec> Route(RouteConfig config) {
  TemplateError error;
  auto spec = RouteSpec::Make(config, &error);
  EXPECT_NE(spec, nullptr) << error.message;
  return spec;
}

std::string PackHeaders(const std::vector<std::pair<std::string, std::string>>& headers) {
  std::string packed;
  const auto add = [&](const std::string& text) {
    const uint32_t size = static_cast<uint32_t>(text.size());
    packed.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(text);
  };
  for (const auto& [name, value] : headers) {
    add(name);
    add(value);
  }
  return packed;
}

// An event with everything.
struct Full {
  std::string headers = PackHeaders({{"traceparent", "00-abc-def-01"}, {"empty", ""}});
  Event event;
  Full() {
    event.created_at = kCreatedAt;
    event.id = MakeUuid7(kCreatedAt, 0x123456789abcdef);
    event.aggregate_type = "OrderLine";
    event.aggregate_id = "42";
    event.event_type = "line.added";
    event.payload = "{\"a\": 1}";
    event.content_type = "text/plain";
    event.headers.packed = headers;
  }
};

// "topic|key|body|ms|name=value;..." with "-" for NULL.
std::string Show(RecordFormat* format, const Event& event, int64_t wall = kCreatedAt) {
  std::string packed;
  Error error;
  if (!format->Append(event, wall, &packed, &error)) {
    EXPECT_TRUE(packed.empty());
    EXPECT_EQ(error.error_class, ErrorClass::kMessage);
    return error.code;
  }
  sink::RecordReader reader(packed);
  sink::Record record;
  EXPECT_TRUE(reader.Next(&record));
  const auto show = [](std::string_view view) { return IsNull(view) ? "-" : std::string(view); };
  std::string text = show(record.topic) + "|" + show(record.key) + "|" + show(record.body) + "|" +
                     std::to_string(record.timestamp_ms) + "|";
  for (const sink::Field& field : record.fields) {
    text += std::string(field.name) + "=" + std::string(field.value) + ";";
  }
  EXPECT_FALSE(reader.Next(&record));
  EXPECT_TRUE(reader.ok());
  return text;
}

TEST(RecordFormat, KafkaRecord) {
  RouteConfig config;
  config.kind = sink::FindKind("outbox_kafka");
  RecordFormat format(Route(config));
  const Full full;
  EXPECT_EQ(
      Show(&format, full.event),
      "outbox.event.OrderLine|42|{\"a\": 1}|1700000000123|id=018bcfe5-687b-71c8-8123-456789abcdef;type=line.added;"
      "aggregate_type=OrderLine;content-type=text/plain;created_at=1700000000123456;traceparent=00-abc-def-01;"
      "empty=;");
}

TEST(RecordFormat, RedisRecord) {
  RouteConfig config;
  config.kind = sink::FindKind("outbox_redis");
  config.form = sink::RecordForm::kList;
  config.topic = "{aggregate_type:kebab}:{aggregate_id}";
  RecordFormat format(Route(config));
  const Full full;
  EXPECT_EQ(Show(&format, full.event),
            "order-line:42|42|{\"a\": 1}|1700000000123|id=018bcfe5-687b-71c8-8123-456789abcdef;type=line.added;"
            "aggregate_type=OrderLine;content_type=text/plain;created_at=1700000000123456;h:traceparent=00-abc-def-01;"
            "h:empty=;");
  std::string packed;
  Error error;
  ASSERT_TRUE(format.Append(full.event, kCreatedAt, &packed, &error));
  sink::RecordReader reader(packed);
  sink::Record record;
  ASSERT_TRUE(reader.Next(&record));
  EXPECT_EQ(record.form, sink::RecordForm::kList);
}

TEST(RecordFormat, NullsStayNullAndEmptyStaysEmpty) {
  RouteConfig config;
  config.kind = sink::FindKind("outbox_kafka");
  RecordFormat format(Route(config));
  Full full;
  full.event.content_type = {};
  full.event.headers.packed = {};
  full.event.payload = {};
  const std::string rest =
      "|1700000000123|id=018bcfe5-687b-71c8-8123-456789abcdef;type=line.added;aggregate_type=OrderLine;"
      "created_at=1700000000123456;";
  EXPECT_EQ(Show(&format, full.event), "outbox.event.OrderLine|42|-" + rest);
  full.event.aggregate_id = {};
  full.event.payload = "";
  EXPECT_EQ(Show(&format, full.event), "outbox.event.OrderLine|-|" + rest);
}

TEST(RecordFormat, KeyTemplates) {
  const auto key = [](const std::string& text, bool with_id) {
    RouteConfig config;
    config.key = text;
    RecordFormat format(Route(config));
    Full full;
    if (!with_id) {
      full.event.aggregate_id = {};
    }
    const std::string shown = Show(&format, full.event);
    const size_t start = shown.find('|') + 1;
    return shown.substr(start, shown.find('|', start) - start);
  };
  EXPECT_EQ(key("{aggregate_type}/{aggregate_id}", true), "OrderLine/42");
  EXPECT_EQ(key("{aggregate_type}/{aggregate_id}", false), "-");
  EXPECT_EQ(key("{aggregate_type:lower}", false), "orderline");
}

TEST(RecordFormat, ExplicitTopicWinsAndIllegalOnesAreTheEventsFault) {
  RouteConfig config;
  config.kind = sink::FindKind("outbox_kafka");
  config.topic = "events.{event_type}";
  RecordFormat format(Route(config));
  Full full;
  EXPECT_EQ(format.Topic(full.event), "events.line.added");
  full.event.event_type = "line added";
  EXPECT_EQ(Show(&format, full.event), "INVALID_TOPIC");
  full.event.topic = "mine";
  EXPECT_EQ(format.Topic(full.event), "mine");
  EXPECT_EQ(Show(&format, full.event).substr(0, 5), "mine|");
  full.event.topic = "a b";
  EXPECT_EQ(Show(&format, full.event), "INVALID_TOPIC");
  config.kind = sink::FindKind("outbox_redis");
  RecordFormat redis(Route(config));
  EXPECT_EQ(Show(&redis, full.event).substr(0, 4), "a b|");
}

TEST(RecordFormat, CachedTopicsAreNeverMixedUp) {
  RouteConfig config;
  config.kind = sink::FindKind("outbox_redis");
  config.topic = "{aggregate_type:lower}.{event_type}";
  RecordFormat format(Route(config));
  Event event;
  std::map<std::string, int> seen;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 6000; ++i) {  // more pairs than are cached
      const std::string type = "T" + std::to_string(i % 77);
      const std::string event_type = "e" + std::to_string(i);
      event.aggregate_type = type;
      event.event_type = event_type;
      ASSERT_EQ(format.Topic(event), "t" + std::to_string(i % 77) + "." + event_type);
      ASSERT_EQ(format.Topic(event), "t" + std::to_string(i % 77) + "." + event_type);
    }
  }
  // Types that run together the same way.
  event.aggregate_type = "ab";
  event.event_type = "c";
  EXPECT_EQ(format.Topic(event), "ab.c");
  event.aggregate_type = "a";
  event.event_type = "bc";
  EXPECT_EQ(format.Topic(event), "a.bc");
}

TEST(RecordFormat, RecordTimeIsNowForEventsFromFarAhead) {
  RouteConfig config;
  RecordFormat format(Route(config));
  const Full full;
  const auto milliseconds = [&](int64_t wall) {
    std::string packed;
    Error error;
    EXPECT_TRUE(format.Append(full.event, wall, &packed, &error));
    sink::RecordReader reader(packed);
    sink::Record record;
    EXPECT_TRUE(reader.Next(&record));
    return record.timestamp_ms;
  };
  EXPECT_EQ(milliseconds(kCreatedAt - kMaxAheadMicros), kCreatedAt / 1000);
  EXPECT_EQ(milliseconds(kCreatedAt - kMaxAheadMicros - 1), (kCreatedAt - kMaxAheadMicros - 1) / 1000);
  EXPECT_EQ(milliseconds(kCreatedAt + 1'000'000'000'000), kCreatedAt / 1000);
}

TEST(RecordFormat, RecordTimeOfADelayedEventIsWhenItWasDue) {
  RouteConfig config;
  RecordFormat format(Route(config));
  Full full;
  const auto milliseconds = [&](int64_t deliver_at, int64_t wall) {
    full.event.deliver_at = deliver_at;
    std::string packed;
    Error error;
    EXPECT_TRUE(format.Append(full.event, wall, &packed, &error));
    sink::RecordReader reader(packed);
    sink::Record record;
    EXPECT_TRUE(reader.Next(&record));
    for (const sink::Field& field : record.fields) {
      EXPECT_TRUE(field.name != "created_at" || field.value == std::to_string(kCreatedAt));
    }
    return record.timestamp_ms;
  };
  const int64_t due = kCreatedAt + int64_t{3} * 86'400 * 1'000'000;
  EXPECT_EQ(milliseconds(due, due), due / 1000);
  EXPECT_EQ(milliseconds(due, due + 1'000'000'000'000), due / 1000);
  EXPECT_EQ(milliseconds(kCreatedAt - 5'000'000, kCreatedAt), kCreatedAt / 1000);  // at once
  EXPECT_EQ(milliseconds(due, due - kMaxAheadMicros - 1), (due - kMaxAheadMicros - 1) / 1000);
}

TEST(RecordFormat, SameEventSameBytes) {
  RouteConfig config;
  config.kind = sink::FindKind("outbox_kafka");
  const Full full;
  RecordFormat one(Route(config));
  RecordFormat other(Route(config));
  std::string first;
  std::string again;
  Error error;
  ASSERT_TRUE(one.Append(full.event, kCreatedAt, &first, &error));
  ASSERT_TRUE(other.Append(full.event, kCreatedAt + 5'000'000, &again, &error));
  EXPECT_EQ(first, again);
}

TEST(RouteSpec, FiltersByBothPatterns) {
  RouteConfig config;
  config.aggregate_types = {"order*", "invoice"};
  config.event_types = {"*.created"};
  const auto spec = Route(config);
  EXPECT_TRUE(spec->Wants("order_line", "1", "line.created", {}));
  EXPECT_TRUE(spec->Wants("invoice", {}, "x.created", {}));
  EXPECT_FALSE(spec->Wants("invoice", "1", "x.deleted", {}));
  EXPECT_FALSE(spec->Wants("user", "1", "x.created", {}));
}

// Known answers: a changed hash would move keys between the lanes of routes that are running.
TEST(LaneOf, NeverChanges) {
  const Uuid id = *ParseUuid("018bcfe5-687b-71c8-8123-456789abcdef");
  EXPECT_EQ(LaneOf("42", id, 1), 0u);
  // FNV-1a of "a" is 0xe40c292c, of "foobar" 0xbf9cf968 (published vectors); folded: h ^ (h >> 16).
  EXPECT_EQ(LaneOf("a", id, 1u << 31), (0xe40c292cu ^ 0xe40cu) % (1u << 31));
  EXPECT_EQ(LaneOf("foobar", id, 1000), (0xbf9cf968u ^ 0xbf9cu) % 1000);
  EXPECT_EQ(LaneOf("", id, 16), (2166136261u ^ (2166136261u >> 16)) % 16);
}

TEST(LaneOf, EveryEventHasExactlyOneLaneAndKeysAreSpread) {
  constexpr uint32_t kLanes = 4;
  std::vector<std::shared_ptr<const RouteSpec>> specs;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    RouteConfig config;
    config.lane = lane;
    config.lanes = kLanes;
    specs.push_back(Route(config));
  }
  std::vector<int> load(kLanes);
  std::vector<int> keyless(kLanes);
  for (int i = 0; i < 4000; ++i) {
    const std::string key = std::to_string(1000 + i);
    const Uuid id = MakeUuid7(kCreatedAt + i, static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15);
    int wanted = 0;
    int wanted_keyless = 0;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const bool wants = specs[lane]->Wants("order", key, "created", id);
      ASSERT_EQ(wants, specs[lane]->Wants("other", key, "deleted", MakeUuid7(1, 2)));  // by key alone
      wanted += wants;
      load[lane] += wants;
      const bool wants_keyless = specs[lane]->Wants("order", {}, "created", id);
      wanted_keyless += wants_keyless;
      keyless[lane] += wants_keyless;
    }
    ASSERT_EQ(wanted, 1);
    ASSERT_EQ(wanted_keyless, 1);
  }
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    EXPECT_GT(load[lane], 800);
    EXPECT_GT(keyless[lane], 800);
  }
}

TEST(RouteSpec, RefusesBadTemplates) {
  TemplateError error;
  RouteConfig config;
  config.kind = sink::FindKind("outbox_kafka");
  config.topic = "{aggregate_id}";
  EXPECT_EQ(RouteSpec::Make(config, &error), nullptr);
  EXPECT_FALSE(error.message.empty());
  config.kind = sink::FindKind("outbox_redis");
  EXPECT_NE(RouteSpec::Make(config, &error), nullptr);
  config.key = "{nothing}";
  EXPECT_EQ(RouteSpec::Make(config, &error), nullptr);
}

}  // namespace
}  // namespace outbox::format
