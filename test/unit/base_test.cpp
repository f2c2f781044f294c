// base/: UUIDv7, back-off, text that others sent.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "base/count_text.h"
#include "base/due_counts.h"
#include "base/media_type.h"
#include "base/utf8.h"
#include "base/uuid.h"

namespace outbox {
namespace {

std::string Text(const Uuid& id) {
  std::string text(kUuidTextLength, '?');
  FormatUuid(id, text.data());
  return text;
}

TEST(Uuid7, LayoutIsTheOneOfTheRfc) {
  // 0x0192e4bfc8a1 ms, 999 us (0x3e7), all random bits set.
  const int64_t micros = int64_t{0x0192e4bfc8a1} * 1000 + 999;
  EXPECT_EQ(Text(MakeUuid7(micros, ~uint64_t{0})), "0192e4bf-c8a1-73e7-bfff-ffffffffffff");
  EXPECT_EQ(Text(MakeUuid7(micros, 0)), "0192e4bf-c8a1-73e7-8000-000000000000");
  EXPECT_EQ(Text(MakeUuid7(0, 0)), "00000000-0000-7000-8000-000000000000");
}

TEST(Uuid7, GivesBackItsClockReading) {
  std::mt19937_64 random(1);
  const int64_t largest = (int64_t{1} << 48) * 1000 - 1;
  for (int i = 0; i < 20000; ++i) {
    const int64_t micros = static_cast<int64_t>(random() % static_cast<uint64_t>(largest + 1));
    ASSERT_EQ(Uuid7Micros(MakeUuid7(micros, random())), micros);
  }
  EXPECT_EQ(Uuid7Micros(MakeUuid7(largest, 0)), largest);
}

TEST(Uuid7, SortsAsTextByClockReading) {
  std::mt19937_64 random(2);
  std::string before;
  for (int64_t micros = 1'700'000'000'000'000; micros < 1'700'000'000'003'000; ++micros) {
    std::string text = Text(MakeUuid7(micros, random()));
    ASSERT_LT(before, text);
    before = text;
  }
}

TEST(Uuid7, RefusesIdsThatItCannotHaveMade) {
  EXPECT_FALSE(Uuid7Micros(*ParseUuid("f47ac10b-58cc-4372-a567-0e02b2c3d479")));  // version 4
  EXPECT_FALSE(Uuid7Micros(*ParseUuid("0192e4bf-c8a1-73e8-8000-000000000000")));  // 1000 us
  EXPECT_FALSE(Uuid7Micros(*ParseUuid("0192e4bf-c8a1-7001-0000-000000000000")));  // variant
}

TEST(UuidText, RoundTripsAndTakesUpperCase) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000; ++i) {
    Uuid id;
    for (uint8_t& byte : id) {
      byte = static_cast<uint8_t>(random());
    }
    ASSERT_EQ(ParseUuid(Text(id)), id);
  }
  EXPECT_EQ(ParseUuid("F47AC10B-58CC-4372-A567-0E02B2C3D479"), ParseUuid("f47ac10b-58cc-4372-a567-0e02b2c3d479"));
}

TEST(UuidText, RefusesEverythingElse) {
  for (const char* text : {"", "f47ac10b58cc4372a5670e02b2c3d479", "f47ac10b-58cc-4372-a567-0e02b2c3d47",
                           "f47ac10b-58cc-4372-a567-0e02b2c3d4790", "g47ac10b-58cc-4372-a567-0e02b2c3d479",
                           "f47ac10b-58cc-4372-a5670-e02b2c3d479", "{47ac10b-58cc-4372-a567-0e02b2c3d47}"}) {
    EXPECT_FALSE(ParseUuid(text)) << text;
  }
}

TEST(CountText, OneIsNoPlural) {
  EXPECT_EQ(CountText(0, "event"), "0 events");
  EXPECT_EQ(CountText(1, "event"), "1 event");
  EXPECT_EQ(CountText(size_t{2}, "event"), "2 events");
  EXPECT_EQ(CountText(int64_t{1}, "lane is", "lanes are"), "1 lane is");
  EXPECT_EQ(CountText(int64_t{2}, "lane is", "lanes are"), "2 lanes are");
}

TEST(MediaType, NeitherCaseNorParametersMakeADifference) {
  EXPECT_EQ(MediaType(" text/plain\t; charset=utf-8"), "text/plain");
  EXPECT_EQ(MediaType("text/plain"), "text/plain");
  EXPECT_EQ(MediaType(" ; a=b"), "");
  EXPECT_EQ(MediaType(""), "");
  for (const char* json : {"application/json", "Application/JSON ; charset=utf-8", "application/vnd.a+json"}) {
    EXPECT_TRUE(SaysJson(json) && SaysText(json)) << json;
  }
  for (const char* text : {"text/plain", "TEXT/csv", "application/xml; charset=utf-8", "image/svg+XML",
                           "application/x-ndjson; a=b", "application/notjson"}) {
    EXPECT_TRUE(SaysText(text) && !SaysJson(text)) << text;
  }
  for (const char* bytes : {"application/octet-stream", "context/plain", "application/avro; as=text/json", "", "tex"}) {
    EXPECT_FALSE(SaysText(bytes) || SaysJson(bytes)) << bytes;
  }
}

TEST(MediaType, CharsetIsAParameterOfItsOwn) {
  for (const char* utf8 : {"", ";", "text/plain", "text/plain; charset=UTF-8", "text/plain;Charset=\"utf-8\" ",
                           "text/plain; charset=us-ascii", "text/plain; charset=utf8; x",
                           "text/plain; a=\"; charset=latin1\"", "text/plain; a=\"\\\"; charset=latin1\"",
                           "text/plain; charset", "text/plain; charset*=latin1", "charset=latin1"}) {
    EXPECT_TRUE(SaysUtf8(utf8)) << utf8;
  }
  for (const char* other : {"text/plain; charset=iso-8859-1", ";charset=latin1",
                            "text/plain; a=\"\\\\\"; charset=utf-16", "text/plain; charset=", "text/plain; charset=\"",
                            "text/plain; charset=utf-8; CHARSET=koi8-r", "text/plain; charset=\"utf-16"}) {
    EXPECT_FALSE(SaysUtf8(other)) << other;
  }
}

TEST(PrintableUtf8, KeepsCharactersWhole) {
  const std::string text = "z\xC3\xBC\xE2\x82\xAC\xF0\x9F\x98\x80.";  // 1, 2, 3 and 4 bytes
  EXPECT_EQ(PrintableUtf8(text, 100), text);
  for (size_t limit = 0; limit <= text.size(); ++limit) {
    const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    EXPECT_EQ(PrintableUtf8(text, limit), text.substr(0, whole[limit])) << limit;
  }
}

TEST(WellFormedUtf8, KeepsNamesButWhatNobodyCanStore) {
  EXPECT_EQ(WellFormedUtf8("a\tb\x7F gr\xC3\xB6\xC3\x9F"
                           "e",
                           100),
            "a\tb\x7F gr\xC3\xB6\xC3\x9F"
            "e");
  EXPECT_EQ(WellFormedUtf8(std::string("a\0b\xC3", 4), 100), "a?b?");
}

TEST(Utf8, SpellsWhatIsMalformed) {
  EXPECT_EQ(SpelledUtf8("gr\xC3\xB6\xC3\x9F"
                        "e"),
            "gr\xC3\xB6\xC3\x9F"
            "e");
  EXPECT_EQ(SpelledUtf8("bad\xE9"), "bad\\xe9");
  EXPECT_EQ(SpelledUtf8("\xC3\x0A\xFF"), "\\xc3\n\\xff");
  EXPECT_EQ(SpelledUtf8(""), "");
}

TEST(LegibleUtf8, SpellsWhatATerminalObeys) {
  EXPECT_EQ(LegibleUtf8("z\xC3\xBC\xE2\x82\xAC\xF0\x9F\x98\x80. \\x1b"),
            "z\xC3\xBC\xE2\x82\xAC\xF0\x9F\x98\x80. \\x1b");
  EXPECT_EQ(LegibleUtf8("a\033[31mb\007\t\x7F"), "a\\x1b[31mb\\x07\\x09\\x7f");
  EXPECT_EQ(LegibleUtf8(std::string("\0\n", 2)), "\\x00\\x0a");
  EXPECT_EQ(LegibleUtf8("\xC2\x9B\xC2\xA0\xD8\x9C"), "\\x9b\xC2\xA0\\u061c");
  EXPECT_EQ(LegibleUtf8("\xE2\x80\xAEx\xE2\x81\xA6\xE2\x80\xA8"), "\\u202ex\\u2066\\u2028");
  EXPECT_EQ(LegibleUtf8("\x9B\xE2\x80"), "\x9B\xE2\x80");  // another encoding's: as it is
}

TEST(PrintableUtf8, ReplacesWhatNobodyCanStoreOrShow) {
  EXPECT_EQ(PrintableUtf8(std::string("a\0b\nc\x7F", 6), 100), "a b c ");
  EXPECT_EQ(PrintableUtf8("\x80\xC0\xAF\xFF", 100), "????");
  EXPECT_EQ(PrintableUtf8("\xC3", 100), "?");
  EXPECT_EQ(PrintableUtf8("\xE2\x82x", 100), "??x");
  EXPECT_EQ(PrintableUtf8("\xED\xA0\x80", 100), "???");       // a surrogate
  EXPECT_EQ(PrintableUtf8("\xF4\x90\x80\x80", 100), "????");  // above U+10FFFF
  EXPECT_EQ(PrintableUtf8("\xE0\x9F\xBF", 100), "???");       // overlong
}

TEST(Backoff, GrowsToItsCapAndJittersOverTheWholeRange) {
  const int64_t base = 100'000;
  const int64_t cap = 30'000'000;
  std::mt19937_64 random(4);
  int64_t ceiling = base;
  for (int attempt = 0; attempt < 14; ++attempt) {
    int64_t lowest = cap;
    int64_t highest = 0;
    for (int i = 0; i < 400; ++i) {
      Backoff backoff(base, cap);
      for (int skip = 0; skip < attempt; ++skip) {
        backoff.Next(0);
      }
      const int64_t delay = backoff.Next(random());
      ASSERT_GE(delay, 1);
      ASSERT_LE(delay, ceiling);
      lowest = std::min(lowest, delay);
      highest = std::max(highest, delay);
    }
    EXPECT_LT(lowest, ceiling / 10) << attempt;
    EXPECT_GT(highest, ceiling / 10 * 9) << attempt;
    ceiling = std::min(cap, ceiling * 2);
  }
}

TEST(Backoff, ResetStartsOver) {
  Backoff backoff(1000, 1'000'000);
  for (int i = 0; i < 20; ++i) {
    backoff.Next(~uint64_t{0});
  }
  EXPECT_EQ(backoff.attempts(), 20);
  backoff.Reset();
  EXPECT_EQ(backoff.attempts(), 0);
  EXPECT_LE(backoff.Next(999), 1000);
}

TEST(Backoff, SurvivesAnEternityOfFailures) {
  const int64_t cap = int64_t{1} << 62;
  Backoff backoff(1, cap);
  for (int i = 0; i < 100000; ++i) {
    const int64_t delay = backoff.Next(~uint64_t{0});
    ASSERT_GE(delay, 1);
    ASSERT_LE(delay, cap);
  }
}

TEST(DueCounts, ExactWhereTimesAreFew) {
  DueCounts counts;
  EXPECT_TRUE(counts.empty());
  counts.Add(5);
  counts.Add(5);
  counts.Add(9);
  EXPECT_EQ(counts.At(4).count, 0U);
  EXPECT_EQ(counts.At(4).since, 0);
  EXPECT_EQ(counts.At(5).count, 2U);
  EXPECT_EQ(counts.At(100).count, 3U);
  EXPECT_EQ(counts.At(100).since, 5);
  counts.Remove(5);
  counts.Remove(7);  // never was there
  EXPECT_EQ(counts.At(100).count, 2U);
  EXPECT_EQ(counts.Take(5).count, 1U);
  EXPECT_EQ(counts.all(), 1U);
  EXPECT_EQ(counts.At(100).since, 9);
  counts.Remove(9);
  EXPECT_TRUE(counts.empty());
}

// Of many, none is lost, none is told of before it is due, and each can be taken out again; also at the ends of time.
TEST(DueCounts, NeverEarlyWhereTimesAreMany) {
  std::mt19937_64 random(7);
  for (const int64_t spread : {int64_t{2'000}, int64_t{3'600'000'000}, int64_t{400} * 86'400'000'000}) {
    DueCounts counts;
    std::vector<int64_t> dues = {INT64_MAX, INT64_MIN};
    for (int i = 0; i < 5'000; i++) {
      dues.push_back(1'700'000'000'000'000 + static_cast<int64_t>(random() % static_cast<uint64_t>(spread)));
    }
    for (const int64_t due : dues) {
      counts.Add(due);
    }
    EXPECT_EQ(counts.all(), dues.size());
    EXPECT_EQ(counts.At(INT64_MAX).count, dues.size());
    for (int i = 0; i < 100; i++) {
      const int64_t now = dues[random() % dues.size()];
      const auto due =
          static_cast<uint64_t>(std::count_if(dues.begin(), dues.end(), [now](int64_t one) { return one <= now; }));
      EXPECT_LE(counts.At(now).count, due);
    }
    for (const int64_t due : dues) {
      counts.Remove(due);
    }
    EXPECT_TRUE(counts.empty());
    EXPECT_EQ(counts.At(INT64_MAX).count, 0U);
  }
}

}  // namespace
}  // namespace outbox
