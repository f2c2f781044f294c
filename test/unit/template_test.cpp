// matrix: H2
// Topic and key templates, topic and header names.
#include "format/template.h"

#include <gtest/gtest.h>

#include "base/topic_name.h"
#include "format/header_name.h"
#include "format/route_spec.h"
#include "sink/kind.h"

namespace outbox::format {
namespace {

using Rules = sink::TopicTemplateRules;
const Rules* const kKey = nullptr;
const Rules* const kKafka = sink::FindKind("outbox_kafka")->topic_template;
const Rules* const kRedis = sink::FindKind("outbox_redis")->topic_template;

std::optional<Template> Parse(std::string_view text, const Rules* rules, TemplateError* error) {
  return rules == nullptr ? Template::ParseKey(text, error) : Template::ParseTopic(text, *rules, error);
}

std::string Expand(std::string_view text, const Rules* rules = kRedis) {
  TemplateError error;
  const auto parsed = Parse(text, rules, &error);
  if (!parsed) {
    return "error: " + error.message;
  }
  std::string out;
  parsed->Expand("OrderLine", "Key 42", "LineAdded.V2", &out);
  return out;
}

std::string Kebab(std::string_view text) {
  std::string out;
  AppendKebab(text, &out);
  return out;
}

TEST(Template, ExpandsNamesAndModifiers) {
  EXPECT_EQ(Expand("outbox.event.{aggregate_type}"), "outbox.event.OrderLine");
  EXPECT_EQ(Expand("{aggregate_type:kebab}-{event_type:lower}"), "order-line-lineadded.v2");
  EXPECT_EQ(Expand("{aggregate_type}:{aggregate_id}"), "OrderLine:Key 42");
  EXPECT_EQ(Expand("fixed"), "fixed");
  EXPECT_EQ(Expand("{{{aggregate_type:lower}}}"), "{orderline}");
  EXPECT_EQ(Expand("a{aggregate_id:kebab}b"), "akey-42b");
}

TEST(Template, HasAPatternOfWhatItGives) {
  EXPECT_EQ(PatternOf("outbox.event.{aggregate_type:kebab}"), "outbox.event.*");
  EXPECT_EQ(PatternOf("{aggregate_type}.{{x}}.{event_type}"), "*.{x}.*");
  EXPECT_EQ(PatternOf("plain"), "plain");
  EXPECT_EQ(PatternOf("{aggregate_type:lower}.{event_type:kebab}.{aggregate_id}", "Shop*", "OrderMade"),
            "shop*.order-made.*");
  EXPECT_EQ(PatternOf("{aggregate_type:kebab}", "HTTPS*"), "*");
}

TEST(Template, SaysWhereAndWhatIsWrong) {
  const struct {
    const char* text;
    const Rules* use;
    size_t position;
    const char* message;
  } cases[] = {
      {"", kKey, 0, "template is empty"},
      {"a{aggregate_type", kKey, 1, "template has a \"{\" that is not closed"},
      {"ab}c", kKey, 2, "template has a \"}\" without a \"{\""},
      {"x.{aggregate}", kKey, 3, "unknown name \"aggregate\" in template"},
      {"{}", kKey, 1, "unknown name \"\" in template"},
      {"{event_type:upper}", kKey, 12, "unknown modifier \"upper\" in template"},
      {"{event_type:lower:kebab}", kKey, 12, "unknown modifier \"lower:kebab\" in template"},
      {"{event_type:}", kKey, 12, "unknown modifier \"\" in template"},
      {"t.{aggregate_id}", kKafka, 2, "{aggregate_id} is not allowed in a Kafka topic template"},
      {"my/{event_type}", kKafka, 2, "template has a character that is not allowed in a topic name"},
      {"a{{b", kKafka, 1, "template has a character that is not allowed in a topic name"},
      {"a\nb", kRedis, 1, "template has a character that is not allowed in a topic name"},
  };
  for (const auto& c : cases) {
    TemplateError error;
    EXPECT_FALSE(Parse(c.text, c.use, &error)) << c.text;
    EXPECT_EQ(error.message, c.message) << c.text;
    EXPECT_EQ(error.position, c.position) << c.text;
    EXPECT_FALSE(error.hint.empty()) << c.text;
    EXPECT_EQ(error.hint.back(), '.') << c.text;
  }
}

TEST(Template, KnowsWhetherItNeedsTheId) {
  TemplateError error;
  EXPECT_TRUE(Parse("{aggregate_id}", kKey, &error)->is_aggregate_id());
  EXPECT_FALSE(Parse("{aggregate_id:lower}", kKey, &error)->is_aggregate_id());
  EXPECT_TRUE(Parse("{aggregate_id:lower}", kKey, &error)->uses_aggregate_id());
  EXPECT_TRUE(Parse("x{aggregate_id}", kKey, &error)->uses_aggregate_id());
  EXPECT_FALSE(Parse("{event_type}", kKey, &error)->uses_aggregate_id());
}

TEST(Kebab, SplitsWords) {
  EXPECT_EQ(Kebab("OrderLine"), "order-line");
  EXPECT_EQ(Kebab("orderLine"), "order-line");
  EXPECT_EQ(Kebab("order_line"), "order-line");
  EXPECT_EQ(Kebab("order-line"), "order-line");
  EXPECT_EQ(Kebab("Order Line"), "order-line");
  EXPECT_EQ(Kebab("Order_Line"), "order-line");
  EXPECT_EQ(Kebab("HTTPServer"), "http-server");
  EXPECT_EQ(Kebab("SimpleHTTPServer2Go"), "simple-http-server2-go");
  EXPECT_EQ(Kebab("ID"), "id");
  EXPECT_EQ(Kebab("order"), "order");
  EXPECT_EQ(Kebab(""), "");
  EXPECT_EQ(Kebab("__order__"), "order");
  EXPECT_EQ(Kebab("Order.Created"), "order.created");
  EXPECT_EQ(Kebab("Größe"), "größe");
}

// What a lane left to a side lane under one kind of destination is still found under another.
TEST(RouteSpec, AFormerTopicMayBeOfAnotherKind) {
  RouteConfig config;
  config.kind = sink::FindKind("outbox_kafka");
  config.topic = "orders.{aggregate_type}";
  TemplateError error;
  const auto spec = RouteSpec::Make(config, &error);
  ASSERT_NE(spec, nullptr);
  const Template former = spec->FormerTopic("orders:{aggregate_type}:{aggregate_id}");
  std::string topic;
  former.Expand("order", "7", "paid", &topic);
  EXPECT_EQ(topic, "orders:order:7");
}

TEST(TopicName, KafkaRule) {
  EXPECT_EQ(BadPortableTopic("outbox.event.Order_line-1"), nullptr);
  EXPECT_EQ(BadPortableTopic(std::string(249, 'a')), nullptr);
  for (const std::string& bad :
       {std::string(), std::string("."), std::string(".."), std::string(250, 'a'), std::string("a b"),
        std::string("a/b"), std::string("größe"), std::string("a\0b", 3)}) {
    EXPECT_NE(BadPortableTopic(bad), nullptr) << bad;
  }
}

// Brokers answer "Invalid topic", or say that it is not there and let nobody make it.
TEST(TopicName, KafkasOwnTopicsAreNone) {
  for (const char* own : {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}) {
    EXPECT_STREQ(BadPortableTopic(own), "is one that Kafka keeps for itself") << own;
    EXPECT_EQ(BadFreeTopic(own), nullptr) << own;
  }
  for (const char* other : {"_consumer_offsets", "__consumer_offsets2", "__Consumer_offsets", "__", "__orders"}) {
    EXPECT_EQ(BadPortableTopic(other), nullptr) << other;
  }
}

TEST(TopicName, RedisRule) {
  EXPECT_EQ(BadFreeTopic("orders:{42} ü"), nullptr);
  EXPECT_EQ(BadFreeTopic(std::string(512, 'a')), nullptr);
  for (const std::string& bad :
       {std::string(), std::string(513, 'a'), std::string("a\nb"), std::string("a\rb"), std::string("a\0b", 3)}) {
    EXPECT_NE(BadFreeTopic(bad), nullptr) << bad;
  }
}

TEST(HeaderName, ReservedNamesInAnyCase) {
  for (const char* name : {"id", "type", "aggregate_type", "content-type", "content_type", "created_at", "key",
                           "payload", "ID", "Content-Type", ""}) {
    EXPECT_NE(BadHeaderName(name), nullptr) << name;
  }
  EXPECT_NE(BadHeaderName(std::string(32768, 'a')), nullptr);
  for (const char* name : {"a\nb", "\r", "a\tb", "a\x7f", "\x01", "a\xc2\x85 b", "\xc2\x80", "a\xc2\x9f"}) {
    EXPECT_STREQ(BadHeaderName(name), "holds a control character");
  }
  for (const char* name : {"\xe2\x80\xa8", "a\xe2\x80\xa9 b"}) {
    EXPECT_STREQ(BadHeaderName(name), "holds a separator of lines or paragraphs");
  }
  for (const char* name : {"traceparent", "idx", "types", "x-id", "a b", "größe: x", "a\xc2\xa0 b", "\xe2\x80\xa7",
                           "\xe2\x80\xaa", "\xe2", "\xc2"}) {
    EXPECT_EQ(BadHeaderName(name), nullptr) << name;
  }
}

}  // namespace
}  // namespace outbox::format
