// The table of kinds of destinations: every row is whole, no two are taken for one another, and each says of topics,
// templates, forms and fields what its destination needs.
#include "sink/kind.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/topic_name.h"

namespace outbox::sink {
namespace {

const SinkKind& Kind(const char* wrapper) {
  return *FindKind(wrapper);
}

TEST(SinkKinds, EveryRowIsWhole) {
  std::set<std::string> wrappers;
  std::set<std::string> programs;
  for (const SinkKind* kind : Kinds()) {
    SCOPED_TRACE(kind->wrapper);
    const std::string wrapper = kind->wrapper;
    EXPECT_TRUE(wrapper.starts_with("outbox_")) << "its validator is found by that";
    EXPECT_TRUE(wrappers.insert(wrapper).second);
    EXPECT_EQ(FindKind(wrapper), kind);
    EXPECT_NE(kind->title, nullptr);
    EXPECT_NE(kind->program == nullptr, kind->make == nullptr) << "a program, or a sink inside the worker";
    if (kind->program != nullptr) {
      EXPECT_EQ(kind->program, "outbox-sink-" + wrapper.substr(7)) << "so the build calls it";
      EXPECT_TRUE(programs.insert(kind->program).second);
    }
    ASSERT_NE(kind->options, nullptr);
    ASSERT_NE(kind->topic_template, nullptr);
    EXPECT_NE(kind->topic_template->literal, nullptr);
    EXPECT_NE(kind->topic_template->bad_name, nullptr);
    for (const char* text : {kind->topic_template->literals, kind->topic_template->names}) {
      EXPECT_TRUE(std::string(text).ends_with('.'));
    }
    if (!kind->topic_template->aggregate_id) {
      EXPECT_NE(kind->topic_template->no_aggregate_id, nullptr);
      EXPECT_TRUE(std::string(kind->topic_template->no_aggregate_id_hint).ends_with('.'));
    }
    ASSERT_NE(kind->bad_topic, nullptr);
    if (kind->required.name != nullptr) {
      EXPECT_NE(FindOption(*kind, kind->required.name), nullptr);
      EXPECT_TRUE(std::string(kind->required.why).ends_with('.'));
      EXPECT_NE(kind->required.example, nullptr);
    }
    EXPECT_EQ(kind->form != nullptr, !kind->route_options.empty());
    EXPECT_EQ(kind->route_options_hint != nullptr, !kind->route_options.empty());
  }
}

TEST(SinkKinds, EveryFolderOfAKindIsInTheTable) {
  size_t folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(OUTBOX_SOURCE_DIR "/src/sink")) {
    if (entry.is_directory()) {
      folders++;
      const SinkKind* kind = FindKind("outbox_" + entry.path().filename().string());
      ASSERT_NE(kind, nullptr) << entry.path();
      EXPECT_EQ(std::filesystem::exists(entry.path() / "main.cpp"), kind->program != nullptr) << entry.path();
    }
  }
  EXPECT_EQ(folders, Kinds().size());
}

TEST(SinkKinds, AnotherWrapperIsNone) {
  for (const char* wrapper : {"", "outbox", "outbox_", "postgres_fdw", "outbox_kafka2", "OUTBOX_KAFKA", "kafka"}) {
    EXPECT_EQ(FindKind(wrapper), nullptr) << wrapper;
  }
  EXPECT_EQ(std::string(kUnknownKind.wrapper), "");
  EXPECT_TRUE(OptionRules(kUnknownKind).empty());
}

// What an event may ask for as its own topic is checked when its destinations are not known yet.
TEST(SinkKinds, APortableTopicIsGoodForAll) {
  const std::string names[] = {"a", "outbox.event.Order_line-1", "...", std::string(249, 'x')};
  for (const SinkKind* kind : Kinds()) {
    for (const std::string& name : names) {
      EXPECT_EQ(BadPortableTopic(name), nullptr);
      EXPECT_EQ(kind->bad_topic(name), nullptr) << kind->wrapper << " " << name;
      EXPECT_EQ(kind->topic_template->bad_name(name), nullptr) << kind->wrapper << " " << name;
    }
    EXPECT_NE(kind->bad_topic(""), nullptr) << kind->wrapper;
  }
}

// A template is refused where no event could be sent by it.
TEST(SinkKinds, ATemplateIsCheckedAtLeastAsStrictlyAsWhatItGives) {
  const std::string names[] = {
      "", ".", "..", "a b", "a:b", "ü", "a\nb", std::string(250, 'x'), std::string(513, 'x'), "__consumer_offsets"};
  for (const SinkKind* kind : Kinds()) {
    for (const std::string& name : names) {
      EXPECT_TRUE(kind->bad_topic(name) == nullptr || kind->topic_template->bad_name(name) != nullptr)
          << kind->wrapper << " " << name;
    }
  }
}

TEST(SinkKinds, TheLogTakesTemplatesAsKafkaAndNamesAsTheyCome) {
  const SinkKind& log = Kind("outbox_log");
  EXPECT_FALSE(log.topic_template->aggregate_id);
  EXPECT_NE(log.topic_template->bad_name("a b"), nullptr);
  EXPECT_EQ(log.bad_topic("a b"), nullptr);
  EXPECT_EQ(Kind("outbox_kafka").bad_topic("a b") == nullptr, false);
  EXPECT_EQ(Kind("outbox_redis").bad_topic("a b"), nullptr);
}

TEST(SinkKinds, FormsOfRedis) {
  const SinkKind& redis = Kind("outbox_redis");
  EXPECT_EQ(redis.form({}), RecordForm::kStream);
  EXPECT_EQ(redis.form({{"mode", "stream"}}), RecordForm::kStream);
  EXPECT_EQ(redis.form({{"mode", "list"}}), RecordForm::kList);
  EXPECT_EQ(redis.form({{"mode", "publish"}}), RecordForm::kPublish);
  EXPECT_EQ(redis.form({{"mode", "edited by hand"}}), RecordForm::kStream);
}

TEST(SinkKinds, OnlyRedisForgets) {
  for (const SinkKind* kind : Kinds()) {
    EXPECT_EQ(kind->resends_lost != nullptr, kind == FindKind("outbox_redis")) << kind->wrapper;
  }
  EXPECT_TRUE(Kind("outbox_redis").resends_lost({}));
  EXPECT_FALSE(Kind("outbox_redis").resends_lost({{"on_lost_writes", "warn"}}));
}

}  // namespace
}  // namespace outbox::sink
