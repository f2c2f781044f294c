// Trace context in comments of statements: SQLCommenter's own examples, and garbage.
#include "base/trace_comment.h"

#include <gtest/gtest.h>

namespace outbox {
namespace {

constexpr const char* kParent = "00-5bd66ef5095369c7b0d1f8f4bd33716a-c532cb4098ac3dd2-01";

TEST(TraceComment, TheSpecificationsExample) {
  const TraceComment found = ReadTraceComment(
      "SELECT * FROM FOO /*action='%2Fparam*d',controller='index,'framework='spring',"
      "traceparent='00-5bd66ef5095369c7b0d1f8f4bd33716a-c532cb4098ac3dd2-01',"
      "tracestate='congo%3Dt61rcWkgMzE%2Crojo%3D00f067aa0ba902b7'*/");
  // Its second pair is not written as its own rules say; nothing is made of what is behind it.
  EXPECT_EQ(found.traceparent, "");
  const TraceComment well = ReadTraceComment(
      "SELECT * FROM FOO /*action='%2Fparam*d',controller='index',framework='spring',"
      "traceparent='00-5bd66ef5095369c7b0d1f8f4bd33716a-c532cb4098ac3dd2-01',"
      "tracestate='congo%3Dt61rcWkgMzE%2Crojo%3D00f067aa0ba902b7'*/");
  EXPECT_EQ(well.traceparent, kParent);
  EXPECT_EQ(well.tracestate, "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7");
  EXPECT_EQ(well.baggage, "");
}

TEST(TraceComment, WhereItStands) {
  const std::string comment = std::string("/*traceparent='") + kParent + "'*/";
  EXPECT_EQ(ReadTraceComment("SELECT 1 " + comment).traceparent, kParent);
  EXPECT_EQ(ReadTraceComment("SELECT 1 " + comment + " ;\n").traceparent, kParent);
  EXPECT_EQ(ReadTraceComment("SELECT 1; " + comment).traceparent, kParent);
  EXPECT_EQ(ReadTraceComment(comment + " SELECT 1").traceparent, kParent);
  EXPECT_EQ(ReadTraceComment("/* hello */ " + comment + " SELECT 1").traceparent, kParent);
  EXPECT_EQ(ReadTraceComment("SELECT 1 " + comment + " /* pooler='x' */").traceparent, kParent);
  EXPECT_EQ(ReadTraceComment("SELECT 1 /*traceparent='first'*/ " + comment).traceparent, kParent);
  // In a literal, or in the middle.
  EXPECT_EQ(ReadTraceComment("SELECT '" + comment + "'").traceparent, "");
  EXPECT_EQ(ReadTraceComment("SELECT " + comment + " 1").traceparent, "");
}

TEST(TraceComment, EncodedAndEscaped) {
  EXPECT_EQ(ReadTraceComment("SELECT 1 /*baggage='a%3D1%2Cb%3D%27x%27',traceparent='x'*/").baggage, "a=1,b='x'");
  EXPECT_EQ(ReadTraceComment("SELECT 1 /*baggage='it\\'s'*/").baggage, "it's");
  EXPECT_EQ(ReadTraceComment("SELECT 1 /*baggage='100%'*/").baggage, "100%");
  EXPECT_EQ(ReadTraceComment("SELECT 1 /*baggage='%zz%4'*/").baggage, "%zz%4");
  EXPECT_EQ(ReadTraceComment("SELECT 1 /* trace%70arent = 'x' */").traceparent, "");
}

TEST(TraceComment, Garbage) {
  for (const char* statement :
       {"", "*/", "/*", "/*/", "/**/", "/***/", "*/*/", "/*traceparent=*/", "/*traceparent='*/", "/*traceparent='\\*/",
        "/*=''*/", "/*,,,*/", "SELECT 1 /* /* nested */ */", "/*traceparent='x", "traceparent='x'*/", ";;;"}) {
    EXPECT_EQ(ReadTraceComment(statement).traceparent, "") << statement;
  }
  std::string many;
  for (int i = 0; i < 100'000; i++) {
    many += "/**/";
  }
  EXPECT_EQ(ReadTraceComment(many).traceparent, "");
}

}  // namespace
}  // namespace outbox
