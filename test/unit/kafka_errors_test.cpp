// matrix: D8
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

struct Expected {
  Meaning meaning;
  ErrorClass error_class;
  Note note;
  std::set<int> codes;
};

// Every row of the table is in exactly one of these sets, so a change of the table is a change here.
const Expected kExpected[] = {
    {Meaning::kBatch, C::kMessage, Note::kSize, {10, 18}},
    {Meaning::kBatch, C::kSolo, Note::kNone, {32, 87}},
    {Meaning::kBatch, C::kTopic, Note::kNone, {44}},
    {Meaning::kBatch, C::kDestination, Note::kCapped, {2}},
    {Meaning::kRefused, C::kTopic, Note::kNone, {-190, -188, 3, 17, 29, 37, 38, 39, 40, 100, 103}},
    {Meaning::kRefused, C::kConfig, Note::kNone, {-181, -169, -165, 21, 30, 31, 33, 34, 35, 43, 50,  53, 54,
                                                  58,   61,   62,   63, 64, 65, 66, 76, 93, 97, 114, 115}},
    {Meaning::kRefused, C::kInternal, Note::kNone, {-186, -173, -172, -170}},
    {Meaning::kRefused,
     C::kDestination,
     Note::kNone,
     {-199, -198, -196, -194, -193, -189, -187, -183, 8, 14, 15, 16, 51, 89}},
    // The first could be a topic's; the others never come back from producing.
    {Meaning::kRefused,
     C::kDestination,
     Note::kCapped,
     {-191, -182, -180, -179, -178, -177, -176, -175, -174, -171, -168, -167, -164, -162, -161, -160, -159, -158,
      -157, -156, -155, -154, -147, -146, -145, -143, -142, -141, -140, -139, -1,   1,    4,    9,    11,   12,
      19,   20,   22,   23,   24,   25,   26,   27,   28,   36,   41,   42,   55,   56,   57,   60,   67,   68,
      69,   70,   71,   72,   73,   77,   78,   79,   80,   81,   82,   83,   84,   85,   86,   88,   91,   92,
      94,   95,   96,   98,   99,   101,  102,  104,  105,  106,  107,  108,  109,  110,  111,  112,  113,  116,
      117,  118,  119,  121,  122,  123,  124,  125,  126,  127,  128,  130,  131,  132,  133}},
    {Meaning::kRetry,
     C::kDestination,
     Note::kNone,
     {-197, -195, -192, -185, -166, -163, -153, -137, 5, 6, 7, 13, 74, 75, 129}},
    {Meaning::kRetry, C::kFatalClient, Note::kNone, {-150, -149, -148, -144, 45, 46, 47, 48, 49, 52, 59, 90, 120}},
    {Meaning::kRetry, C::kNone, Note::kNone, {-184, -152, -151, -138}},
};

TEST(KafkaErrors, WholeTable) {
  size_t expected_rows = 0;
  for (const Expected& expected : kExpected) {
    expected_rows += expected.codes.size();
    for (int code : expected.codes) {
      const ErrorRule& rule = RuleFor(code);
      EXPECT_EQ(rule.code, code) << "no row";
      EXPECT_EQ(rule.meaning, expected.meaning) << rule.name;
      EXPECT_EQ(rule.error_class, expected.error_class) << rule.name;
      EXPECT_EQ(rule.note, expected.note) << rule.name;
    }
  }
  EXPECT_EQ(expected_rows, ErrorRules().size());
}

TEST(KafkaErrors, EveryCodeOfTheLibraryHasARow) {
  const rd_kafka_err_desc* descriptions = nullptr;
  size_t count = 0;
  rd_kafka_get_err_descs(&descriptions, &count);
  size_t known = 0;
  for (size_t i = 0; i < count; ++i) {
    const int code = descriptions[i].code;
    if (descriptions[i].name == nullptr || code == RD_KAFKA_RESP_ERR__BEGIN || code == RD_KAFKA_RESP_ERR__END ||
        code == RD_KAFKA_RESP_ERR_NO_ERROR) {
      continue;
    }
    EXPECT_EQ(RuleFor(code).code, code) << descriptions[i].name << " has no row";
    ++known;
  }
  EXPECT_GT(known, 150u);
}

// Events become dead letters for these alone: for the first two at once, for the others after max_attempts.
TEST(KafkaErrors, FewCodesAreTheMessages) {
  for (const ErrorRule& rule : ErrorRules()) {
    EXPECT_EQ(rule.error_class == C::kMessage, rule.code == 10 || rule.code == 18) << rule.name;
    EXPECT_EQ(rule.error_class == C::kSolo, rule.code == 32 || rule.code == 87) << rule.name;
  }
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
  EXPECT_GT(compared, 150u);
}

TEST(KafkaErrors, UnknownCodesAreDestinationTrouble) {
  for (int code : {-999, -136, 134, 999, 30000}) {
    EXPECT_EQ(RuleFor(code).meaning, Meaning::kRefused) << code;
    EXPECT_EQ(RuleFor(code).error_class, C::kDestination) << code;
    EXPECT_EQ(RuleFor(code).note, Note::kCapped) << code;
  }
  EXPECT_EQ(MakeError(999, C::kDestination, "").code, "KAFKA_999");
  EXPECT_FALSE(MakeError(999, C::kDestination, "").message.empty());
}

TEST(KafkaErrors, OnlySizesTeachSizes) {
  for (const ErrorRule& rule : ErrorRules()) {
    EXPECT_EQ(rule.note == Note::kSize, rule.code == 10 || rule.code == 18) << rule.name;
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

// As brokers with TLS 1.3 say it, after the handshake.
TEST(KafkaErrors, ARefusedCertificateIsConfiguration) {
  const std::string before =
      "ssl://kafka:9093/bootstrap: Receive failed: error:0A000416:SSL routines::ssl/tls alert certificate unknown: ";
  const int transport = RD_KAFKA_RESP_ERR__TRANSPORT;
  for (const char* alert : {"42 (after 3ms in state APIVERSION_QUERY)", "45", "46", "48", "116"}) {
    const int code = EventCode(transport, before + "SSL alert number " + alert);
    EXPECT_EQ(code, RD_KAFKA_RESP_ERR__SSL) << alert;
    EXPECT_EQ(EventClass(code), C::kConfig) << alert;
  }
  for (const char* text : {"SSL alert number 80", "SSL alert number ", "Connection refused", ""}) {
    EXPECT_EQ(EventCode(transport, text), transport) << text;
  }
}

}  // namespace
}  // namespace outbox::sink::kafka
