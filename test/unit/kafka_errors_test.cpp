// The whole table of error codes: every row, against what the research found each code to mean, and the codes that a
// newer broker may send.
#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>

#include <map>
#include <set>
#include <string>

#include "sink/kafka/errors.h"

namespace outbox::sink::kafka {
namespace {

using C = ErrorClass;

std::set<int> Codes(Verdict verdict, ErrorClass error_class) {
  std::set<int> codes;
  for (const ErrorRule& rule : ErrorRules()) {
    if (rule.verdict == verdict && rule.error_class == error_class) {
      codes.insert(rule.code);
    }
  }
  return codes;
}

// Every row is in exactly one of these sets, so a change of the table is a change here.
TEST(KafkaErrors, WholeTable) {
  EXPECT_EQ(Codes(Verdict::kBatch, C::kMessage), (std::set<int>{4, 10, 18, 87}));
  EXPECT_EQ(Codes(Verdict::kBatch, C::kTopic), (std::set<int>{44}));
  EXPECT_EQ(Codes(Verdict::kBatch, C::kDestination), (std::set<int>{2}));
  EXPECT_EQ(Codes(Verdict::kRefused, C::kMessage), (std::set<int>{}));
  EXPECT_EQ(Codes(Verdict::kRefused, C::kTopic), (std::set<int>{-190, -188, 3, 17, 29, 32, 100, 103}));
  EXPECT_EQ(Codes(Verdict::kRefused, C::kConfig),
            (std::set<int>{-181, -169, -165, 21, 31, 33, 34, 35, 43, 53, 54, 58, 76, 97}));
  EXPECT_EQ(Codes(Verdict::kRefused, C::kDestination),
            (std::set<int>{-199, -198, -196, -194, -193, -189, -187, -1, 8, 9, 19, 20, 56, 57, 72, 89}));
  EXPECT_EQ(Codes(Verdict::kRefused, C::kInternal), (std::set<int>{-186, -173, -172, -170}));
  EXPECT_EQ(Codes(Verdict::kRetry, C::kNone),
            (std::set<int>{-197, -195, -192, -185, -184, -166, -163, -153, -152, -151, -150, -149, -148, -144, -138,
                           5,    6,    7,    13,   45,   46,   47,   48,   49,   59,   74,   75,   90,   120}));
  size_t rows = 0;
  for (Verdict verdict : {Verdict::kBatch, Verdict::kRefused, Verdict::kRetry}) {
    for (int c = 0; c <= static_cast<int>(C::kInternal); ++c) {
      rows += Codes(verdict, static_cast<ErrorClass>(c)).size();
    }
  }
  EXPECT_EQ(rows, ErrorRules().size());
}

TEST(KafkaErrors, SortedAndNamedAsTheLibraryNamesThem) {
  const rd_kafka_err_desc* descriptions = nullptr;
  size_t count = 0;
  rd_kafka_get_err_descs(&descriptions, &count);
  std::map<int, std::string> names;
  for (size_t i = 0; i < count; ++i) {
    if (descriptions[i].name != nullptr) {
      names[descriptions[i].code] = descriptions[i].name;
    }
  }
  int before = -1000;
  size_t compared = 0;
  for (const ErrorRule& rule : ErrorRules()) {
    EXPECT_LT(before, rule.code);
    before = rule.code;
    auto named = names.find(rule.code);
    if (named != names.end()) {  // the installed library may be older than the table
      EXPECT_EQ(named->second, rule.name) << rule.code;
      ++compared;
    }
  }
  EXPECT_GT(compared, ErrorRules().size() - 8);
}

TEST(KafkaErrors, UnknownCodesAreDestinationTrouble) {
  for (int code : {-999, -137, 77, 119, 134, 999, 30000}) {
    EXPECT_EQ(RuleFor(code).verdict, Verdict::kRefused) << code;
    EXPECT_EQ(RuleFor(code).error_class, C::kDestination) << code;
    EXPECT_FALSE(RuleFor(code).learn_size) << code;
  }
  EXPECT_EQ(MakeError(999, C::kDestination, "").code, "KAFKA_999");
  EXPECT_FALSE(MakeError(999, C::kDestination, "").message.empty());
}

TEST(KafkaErrors, OnlySizesTeachSizes) {
  for (const ErrorRule& rule : ErrorRules()) {
    EXPECT_EQ(rule.learn_size, rule.code == 10 || rule.code == 18) << rule.name;
  }
}

TEST(KafkaErrors, EventsOfCredentialsAreConfiguration) {
  EXPECT_EQ(EventClass(RD_KAFKA_RESP_ERR__AUTHENTICATION), C::kConfig);
  EXPECT_EQ(EventClass(RD_KAFKA_RESP_ERR__SSL), C::kConfig);
  EXPECT_EQ(EventClass(RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED), C::kConfig);
  EXPECT_EQ(EventClass(RD_KAFKA_RESP_ERR__TRANSPORT), C::kDestination);
  EXPECT_EQ(EventClass(RD_KAFKA_RESP_ERR__RESOLVE), C::kDestination);
  EXPECT_EQ(EventClass(12345), C::kDestination);
}

}  // namespace
}  // namespace outbox::sink::kafka
