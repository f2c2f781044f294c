#include "sink/redis/errors.h"

#include <algorithm>
#include <string>

#include "base/letter_case.h"
#include "base/utf8.h"

namespace outbox::sink {
namespace {

constexpr size_t kLongestQuote = 300;

using C = ErrorClass;
constexpr ReplyRule kRules[] = {
    {"OOM", nullptr, C::kDestination, "OOM", false, false},
    {"MISCONF", nullptr, C::kDestination, "MISCONF", false, false},
    {"NOREPLICAS", nullptr, C::kDestination, "NOREPLICAS", false, false},
    {"READONLY", nullptr, C::kDestination, "READONLY", true, false},
    {"MASTERDOWN", nullptr, C::kDestination, "MASTERDOWN", true, false},
    {"LOADING", nullptr, C::kDestination, "LOADING", true, false},
    {"REDIRECT", nullptr, C::kDestination, "REDIRECT", true, false},
    {"BUSY", nullptr, C::kDestination, "BUSY", false, false},
    {"TRYAGAIN", nullptr, C::kDestination, "TRYAGAIN", false, false},
    {"CLUSTERDOWN", nullptr, C::kDestination, "CLUSTERDOWN", false, false},
    {"NOAUTH", nullptr, C::kConfig, "NOAUTH", true, false},
    {"WRONGPASS", nullptr, C::kConfig, "WRONGPASS", true, false},
    // A command that the user may not run concerns all; a key or channel that it may not use, that one.
    {"NOPERM", "run th", C::kConfig, "NOPERM", false, false},
    {"NOPERM", " key", C::kTopic, "NOPERM", false, false},
    {"NOPERM", " channel", C::kTopic, "NOPERM", false, false},
    {"NOPERM", nullptr, C::kConfig, "NOPERM", false, false},
    {"DENIED", nullptr, C::kConfig, "DENIED", true, false},
    // Of a node of a cluster: it takes what is in its other slots.
    {"MOVED", nullptr, C::kTopic, "MOVED", false, false},
    {"ASK", nullptr, C::kTopic, "ASK", false, false},
    {"CROSSSLOT", nullptr, C::kConfig, "CROSSSLOT", false, false},
    {"WRONGTYPE", nullptr, C::kTopic, "WRONGTYPE", false, false},
    {"EXECABORT", nullptr, C::kInternal, "EXECABORT", false, false},
    {"ERR", "elements are too large", C::kMessage, "TOO_LARGE", false, false},
    {"ERR", "invalid bulk length", C::kMessage, "TOO_LARGE", false, false},
    {"ERR", "invalid multibulk length", C::kMessage, "TOO_LARGE", false, false},
    {"ERR", "string exceeds maximum allowed size", C::kMessage, "TOO_LARGE", false, false},
    {"ERR", "exhausted the last possible id", C::kTopic, "STREAM_EXHAUSTED", false, false},
    {"ERR", "equal or smaller than", C::kTopic, "STREAM_ID", false, false},
    // READONLY at EXEC, by Redis before 6.2.
    {"ERR", "instance is now a read-only", C::kDestination, "READONLY", true, false},
    {"ERR", "unknown command", C::kConfig, "UNKNOWN_COMMAND", false, false},
    {"ERR", "db index is out of range", C::kConfig, "DB_INDEX", true, false},
    {"ERR", "invalid db index", C::kConfig, "DB_INDEX", true, false},
    {"ERR", "without any password configured", C::kConfig, "AUTH", true, false},
    {"ERR", "no password is set", C::kConfig, "AUTH", true, false},
    {"ERR", "wrong number of arguments for 'auth'", C::kConfig, "AUTH", true, false},
    {"ERR", "unauthenticated", C::kConfig, "AUTH", true, false},
    {"ERR", "max number of clients", C::kDestination, "MAX_CLIENTS", true, false},
    // From here on: answers to commands that the sink does not send.
    {"BUSYGROUP", nullptr, C::kDestination, "BUSYGROUP", false, true},
    {"BUSYKEY", nullptr, C::kDestination, "BUSYKEY", false, true},
    {"INPROG", nullptr, C::kDestination, "INPROG", false, true},
    {"INVALIDOBJ", nullptr, C::kDestination, "INVALIDOBJ", false, true},
    {"IOERR", nullptr, C::kDestination, "IOERR", false, true},
    {"NOGOODSLAVE", nullptr, C::kDestination, "NOGOODSLAVE", false, true},
    {"NOGROUP", nullptr, C::kDestination, "NOGROUP", false, true},
    {"NOMASTERLINK", nullptr, C::kDestination, "NOMASTERLINK", false, true},
    {"NOPROTO", nullptr, C::kDestination, "NOPROTO", false, true},
    {"NOQUORUM", nullptr, C::kDestination, "NOQUORUM", false, true},
    {"NOSCRIPT", nullptr, C::kDestination, "NOSCRIPT", false, true},
    {"NOSUB", nullptr, C::kDestination, "NOSUB", false, true},
    {"NOTBUSY", nullptr, C::kDestination, "NOTBUSY", false, true},
    {"UNBLOCKED", nullptr, C::kDestination, "UNBLOCKED", false, true},
    {"UNKILLABLE", nullptr, C::kDestination, "UNKILLABLE", false, true},
    {"ERR", nullptr, C::kDestination, "ERR", false, true},
    {"", nullptr, C::kDestination, "REPLY", false, true},
};

}  // namespace

Error ConnectTimeout(bool resolving, int64_t ms) {
  const std::string within = " within " + std::to_string(ms) + " ms";
  return resolving
             ? Error{ErrorClass::kDestination, "RESOLVE", "the Redis server's name could not be resolved" + within}
             : Error{ErrorClass::kDestination, "TIMEOUT", "the Redis server did not answer" + within};
}

std::span<const ReplyRule> ReplyRules() {
  return kRules;
}

const ReplyRule& FindReplyRule(std::string_view reply) {
  std::string_view word = reply.substr(0, reply.find(' '));
  for (const ReplyRule& rule : ReplyRules()) {
    bool any = rule.word[0] == '\0';
    if ((any || word == rule.word) &&
        (rule.text == nullptr || FindIgnoringCase(reply, rule.text) != std::string_view::npos)) {
      return rule;
    }
  }
  return ReplyRules().back();
}

Error ReplyError(std::string_view reply) {
  const ReplyRule& rule = FindReplyRule(reply);
  std::string_view quote = reply.substr(0, FindIgnoringCase(reply, ", with args beginning"));
  std::string message = "the Redis server said: " + PrintableUtf8(quote, kLongestQuote);
  if (rule.code == std::string_view("MOVED") || rule.code == std::string_view("ASK")) {
    message += " (the destination is a cluster; outbox speaks to single servers and to proxies)";
  }
  return {rule.error_class, rule.code, std::move(message)};
}

Error WhyDiscarded(const redisReply& reply) {
  constexpr std::string_view kBecause = "because of: ";
  const std::string_view text = Text(reply);
  const size_t at = text.starts_with("EXECABORT") ? text.find(kBecause) : std::string_view::npos;
  return ReplyError(at == std::string_view::npos ? text : text.substr(at + kBecause.size()));
}

bool IsCapped(const Error& error) {
  std::span<const ReplyRule> rules = ReplyRules();
  return std::any_of(rules.begin(), rules.end(),
                     [&error](const ReplyRule& rule) { return rule.capped && error.code == rule.code; });
}

bool IsLetIn(const Error& error) {
  return error.ok() || error.code == "NOPERM" || error.code == "UNKNOWN_COMMAND" || error.code == "MISCONF";
}

bool IsPassing(const Error& error) {
  return error.error_class == ErrorClass::kDestination && !IsCapped(error);
}

bool SaysNoSuchKey(const redisReply& reply) {
  return IsError(reply) && Text(reply).starts_with("ERR no such key");
}

bool RefusesKey(const redisReply& reply) {
  const Error error = ErrorOf(reply);
  return error.error_class == ErrorClass::kTopic && error.code == "NOPERM";
}

bool RefusesCommand(const redisReply& reply) {
  const Error error = ErrorOf(reply);
  const bool named =
      error.error_class == ErrorClass::kConfig && (error.code == "NOPERM" || error.code == "UNKNOWN_COMMAND");
  return named || (IsCapped(error) && !SaysNoSuchKey(reply));
}

bool NeedsReconnect(const Error& error) {
  std::span<const ReplyRule> rules = ReplyRules();
  return std::any_of(rules.begin(), rules.end(),
                     [&error](const ReplyRule& rule) { return rule.reconnect && error.code == rule.code; });
}

}  // namespace outbox::sink
