// Packed records: what goes in comes out, and nothing a broken peer sends is read beyond its end.
#include "sink/record.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <random>

namespace outbox::sink {
namespace {

Record Sample() {
  Record record;
  record.timestamp_ms = 1700000000123;
  record.topic = "outbox.event.order";
  record.key = "42";
  record.body = std::string_view("{\"a\":\0}", 7);
  record.fields = {{"id", "0198"}, {"h:empty", ""}};
  return record;
}

TEST(Record, RoundTrip) {
  std::string bytes;
  Record in = Sample();
  ASSERT_TRUE(PackRecord(in, &bytes));
  in.form = RecordForm::kPublish;
  in.key = {};
  in.body = {};
  in.fields.clear();
  in.topic = "";
  in.timestamp_ms = -1;
  ASSERT_TRUE(PackRecord(in, &bytes));

  RecordReader reader(bytes);
  Record out;
  ASSERT_TRUE(reader.Next(&out));
  EXPECT_EQ(out.timestamp_ms, 1700000000123);
  EXPECT_EQ(out.form, RecordForm::kStream);
  EXPECT_EQ(out.topic, "outbox.event.order");
  EXPECT_EQ(out.key, "42");
  EXPECT_EQ(out.body, std::string_view("{\"a\":\0}", 7));
  ASSERT_EQ(out.fields.size(), 2u);
  EXPECT_EQ(out.fields[0].name, "id");
  EXPECT_EQ(out.fields[1].value, "");
  ASSERT_TRUE(reader.Next(&out));
  EXPECT_EQ(out.form, RecordForm::kPublish);
  EXPECT_EQ(out.timestamp_ms, -1);
  EXPECT_EQ(out.key.data(), nullptr);
  EXPECT_EQ(out.body.data(), nullptr);
  EXPECT_TRUE(out.fields.empty());
  EXPECT_FALSE(reader.Next(&out));
  EXPECT_TRUE(reader.ok());
}

TEST(Record, WhatAFormatMaySay) {
  std::string bytes;
  Record in = Sample();
  in.partition = 65000;
  in.fields_only = true;
  in.fields = {{"null", {}}, {"empty", ""}, {"", "nameless"}};
  ASSERT_TRUE(PackRecord(in, &bytes));
  in.partition = 0;
  in.fields_only = false;
  ASSERT_TRUE(PackRecord(in, &bytes));
  ASSERT_TRUE(PackRecord(Sample(), &bytes));

  RecordReader reader(bytes);
  Record out;
  ASSERT_TRUE(reader.Next(&out));
  EXPECT_EQ(out.partition, 65000);
  EXPECT_TRUE(out.fields_only);
  ASSERT_EQ(out.fields.size(), 3u);
  EXPECT_EQ(out.fields[0].value.data(), nullptr);
  EXPECT_NE(out.fields[1].value.data(), nullptr);
  EXPECT_EQ(out.fields[2].value, "nameless");
  EXPECT_EQ(out.key, "42");
  ASSERT_TRUE(reader.Next(&out));
  EXPECT_EQ(out.partition, 0);
  EXPECT_FALSE(out.fields_only);
  ASSERT_TRUE(reader.Next(&out));
  EXPECT_EQ(out.partition, Record::kByKey);
  EXPECT_FALSE(reader.Next(&out));
  EXPECT_TRUE(reader.ok());
}

TEST(Record, EmptyIsNotAbsent) {
  std::string bytes;
  Record in;
  in.topic = "t";
  in.key = "";
  in.body = "";
  ASSERT_TRUE(PackRecord(in, &bytes));
  Record out;
  ASSERT_TRUE(RecordReader(bytes).Next(&out));
  EXPECT_NE(out.key.data(), nullptr);
  EXPECT_NE(out.body.data(), nullptr);
  EXPECT_EQ(out.key.size(), 0u);
}

TEST(Record, RefusesWhatTheLayoutCannotHold) {
  std::string bytes = "before";
  std::string longest(65535, 't');
  Record in = Sample();
  in.topic = longest;
  EXPECT_TRUE(PackRecord(in, &bytes));
  std::string before = bytes;
  std::string too_long(65536, 't');
  in.topic = too_long;
  EXPECT_FALSE(PackRecord(in, &bytes));
  in = Sample();
  in.fields[0].name = too_long;
  EXPECT_FALSE(PackRecord(in, &bytes));
  EXPECT_EQ(bytes, before);
}

// Its bytes are not looked at: they are no memory until somebody does.
TEST(Record, RefusesWhatIsTooLargeForAFrame) {
  void* map = mmap(nullptr, kMaxRecord, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(map, MAP_FAILED);
  Record in = Sample();
  in.body = std::string_view(static_cast<const char*>(map), kMaxRecord);
  std::string bytes = "before";
  EXPECT_FALSE(PackRecord(in, &bytes));
  EXPECT_EQ(bytes, "before");
  munmap(map, kMaxRecord);
}

// Reads from a buffer of exactly the right size, so that a sanitizer sees every step too far.
size_t ReadAll(const std::string& bytes, bool* ok) {
  auto copy = std::make_unique<char[]>(bytes.size());
  if (!bytes.empty()) {
    std::memcpy(copy.get(), bytes.data(), bytes.size());
  }
  RecordReader reader({copy.get(), bytes.size()});
  Record record;
  size_t records = 0;
  size_t sum = 0;
  while (reader.Next(&record)) {
    ++records;
    for (std::string_view view : {record.topic, record.key, record.body}) {
      for (char c : view) {
        sum += static_cast<unsigned char>(c);
      }
    }
    for (const Field& field : record.fields) {
      sum += field.name.size() + field.value.size();
    }
  }
  EXPECT_GE(sum + 1, 1u);
  *ok = reader.ok();
  return records;
}

TEST(Record, TruncatedAnywhereIsMalformed) {
  std::string bytes;
  ASSERT_TRUE(PackRecord(Sample(), &bytes));
  bool ok = false;
  for (size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_EQ(ReadAll(bytes.substr(0, size), &ok), 0u);
    EXPECT_FALSE(ok) << size;
  }
  EXPECT_EQ(ReadAll(bytes, &ok), 1u);
  EXPECT_TRUE(ok);
}

TEST(Record, SlackInsideIsMalformed) {
  std::string bytes;
  ASSERT_TRUE(PackRecord(Sample(), &bytes));
  uint32_t size = static_cast<uint32_t>(bytes.size() - sizeof(uint32_t) + 1);
  std::memcpy(bytes.data(), &size, sizeof(size));
  bytes += 'x';
  bool ok = true;
  EXPECT_EQ(ReadAll(bytes, &ok), 0u);
  EXPECT_FALSE(ok);
}

TEST(Record, GarbageNeverReadsPastTheEnd) {
  std::mt19937 random(1);
  std::string good;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(PackRecord(Sample(), &good));
  }
  bool ok = false;
  size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (int flips = 0; flips < 3; ++flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    EXPECT_LE(ReadAll(bytes, &ok), 3u);
    refused += ok ? 0 : 1;
    std::string noise(random() % 64, '\0');
    for (char& c : noise) {
      c = static_cast<char>(random() % 3 == 0 ? random() : 0);
    }
    ReadAll(noise, &ok);
  }
  EXPECT_GT(refused, 1000u);
}

}  // namespace
}  // namespace outbox::sink
