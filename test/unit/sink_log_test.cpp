// The log sink: one line per event, whatever the event holds.
#include "sink/log/log_sink.h"

#include <gtest/gtest.h>

#include "sink_driver.h"

namespace outbox::sink {
namespace {

std::vector<std::string>& Lines() {
  static auto* lines = new std::vector<std::string>;
  return *lines;
}
void Keep(std::string_view line) {
  Lines().emplace_back(line);
}

std::string Line(const Record& record, size_t limit = 1000) {
  std::string line;
  FormatRecordLine(record, limit, &line);
  return line;
}

TEST(LogSink, WritesEveryRecordAndDelivers) {
  Lines().clear();
  LogSink sink({}, Keep);
  Driver driver(&sink);
  driver.Submit(1, 0, {{"t", "42", "{\"a\": 1}", RecordForm::kStream, {{"id", "0198"}, {"type", "created"}}}});
  driver.Submit(1, 0, {{"t", "", "x", RecordForm::kStream, {}}});
  ASSERT_TRUE(driver.UntilResolved(1));
  EXPECT_EQ(driver.Count(Outcome::kDelivered), 2u);
  EXPECT_EQ(Lines(), (std::vector<std::string>{"t key=42 payload={\"a\": 1} id=0198 type=created", "t payload=x"}));
}

TEST(LogSink, AnEventCannotForgeALineOrBreakTheEncoding) {
  Record record;
  record.topic = "t";
  record.key = "a\nLOG:  forged";
  record.body = std::string_view("\x1b[31m\0\xff\xc3\xa9\xed\xa0\x80", 12);
  EXPECT_EQ(Line(record), "t key=a\\nLOG:  forged payload=\\x1b[31m\\x00\\xff\xc3\xa9\\xed\\xa0\\x80");
  // What a terminal obeys and is no byte of ASCII: CSI and NEL of C1, the direction of text, a line separator.
  record.topic = "t\u009b31m";
  record.key = "a\u0085LOG:  forged";
  record.body = "\u202e \u2028 \u20ac \U0001f600 \x7f";
  record.fields = {{"h\u2066", "v\u2029"}};
  EXPECT_EQ(Line(record),
            "t\\x9b31m key=a\\x85LOG:  forged payload=\\u202e \\u2028 \u20ac \U0001f600 \\x7f h\\u2066=v\\u2029");
}

TEST(LogSink, TombstonesAndLimits) {
  Record record;
  record.topic = "t";
  record.key = "k";
  EXPECT_EQ(Line(record), "t key=k tombstone");
  record.body = "";
  EXPECT_EQ(Line(record), "t key=k payload=");
  record.body = "0123456789";
  EXPECT_EQ(Line(record, 10), "t key=k payload=0123456789");
  EXPECT_EQ(Line(record, 4), "t key=k payload=0123... (10 bytes)");
  record.body = "ab\xc3\xa9";
  EXPECT_EQ(Line(record, 3), "t key=k payload=ab... (4 bytes)") << "no half characters";
}

TEST(LogSink, ABatchThatLiesIsRefused) {
  Lines().clear();
  LogSink sink({{"body_limit", "2"}}, Keep);
  Driver driver(&sink);
  std::string packed;
  Pack({"t", "", "abc", RecordForm::kStream, {}}, &packed);
  driver.SubmitPacked(1, 0, 3, packed);
  ASSERT_TRUE(driver.UntilResolved(1));
  EXPECT_EQ(driver.outcome(0), Outcome::kDelivered);
  EXPECT_EQ(driver.error(1).code, "BAD_RECORD");
  EXPECT_EQ(driver.outcome(2), Outcome::kAborted);
  EXPECT_EQ(Lines(), (std::vector<std::string>{"t payload=ab... (3 bytes)"}));
}

}  // namespace
}  // namespace outbox::sink
