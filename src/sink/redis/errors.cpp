#include "sink/redis/errors.h"

#include <algorithm>

namespace outbox::sink {
namespace {

constexpr size_t kLongestQuote = 300;

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

size_t FindIgnoringCase(std::string_view text, std::string_view wanted) {
  auto at = std::search(text.begin(), text.end(), wanted.begin(), wanted.end(),
                        [](char a, char b) { return Lower(a) == Lower(b); });
  return at == text.end() ? std::string_view::npos : static_cast<size_t>(at - text.begin());
}

}  // namespace

std::span<const ReplyRule> ReplyRules() {
  using C = ErrorClass;
  static constexpr ReplyRule kRules[] = {
      {"OOM", nullptr, C::kDestination, "OOM", false},
      {"MISCONF", nullptr, C::kDestination, "MISCONF", false},
      {"NOREPLICAS", nullptr, C::kDestination, "NOREPLICAS", false},
      {"READONLY", nullptr, C::kDestination, "READONLY", true},
      {"MASTERDOWN", nullptr, C::kDestination, "MASTERDOWN", true},
      {"LOADING", nullptr, C::kDestination, "LOADING", true},
      {"BUSY", nullptr, C::kDestination, "BUSY", false},
      {"TRYAGAIN", nullptr, C::kDestination, "TRYAGAIN", false},
      {"CLUSTERDOWN", nullptr, C::kDestination, "CLUSTERDOWN", false},
      {"NOAUTH", nullptr, C::kConfig, "NOAUTH", true},
      {"WRONGPASS", nullptr, C::kConfig, "WRONGPASS", true},
      {"NOPERM", nullptr, C::kConfig, "NOPERM", false},
      {"DENIED", nullptr, C::kConfig, "DENIED", true},
      {"MOVED", nullptr, C::kConfig, "MOVED", false},
      {"ASK", nullptr, C::kConfig, "ASK", false},
      {"CROSSSLOT", nullptr, C::kConfig, "CROSSSLOT", false},
      {"WRONGTYPE", nullptr, C::kTopic, "WRONGTYPE", false},
      {"NOSCRIPT", nullptr, C::kDestination, "NOSCRIPT", false},
      {"EXECABORT", nullptr, C::kInternal, "EXECABORT", false},
      {"ERR", "elements are too large", C::kMessage, "TOO_LARGE", false},
      {"ERR", "invalid bulk length", C::kMessage, "TOO_LARGE", false},
      {"ERR", "string exceeds maximum allowed size", C::kMessage, "TOO_LARGE", false},
      {"ERR", "exhausted the last possible id", C::kTopic, "STREAM_EXHAUSTED", false},
      {"ERR", "equal or smaller than", C::kTopic, "STREAM_ID", false},
      {"ERR", "unknown command", C::kConfig, "UNKNOWN_COMMAND", false},
      {"ERR", "db index is out of range", C::kConfig, "DB_INDEX", true},
      {"ERR", "invalid db index", C::kConfig, "DB_INDEX", true},
      {"ERR", "without any password configured", C::kConfig, "AUTH", true},
      {"ERR", "no password is set", C::kConfig, "AUTH", true},
      {"ERR", "wrong number of arguments for 'auth'", C::kConfig, "AUTH", true},
      {"ERR", "max number of clients", C::kDestination, "MAX_CLIENTS", true},
      {"ERR", nullptr, C::kDestination, "ERR", false},
      {"", nullptr, C::kDestination, "REPLY", false},
  };
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
  std::string message = "the Redis server said: ";
  for (char c : quote.substr(0, kLongestQuote)) {
    message += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  if (rule.error_class == ErrorClass::kConfig &&
      (rule.code == std::string_view("MOVED") || rule.code == std::string_view("ASK"))) {
    message += " (the destination is a cluster; outbox speaks to single servers and to proxies)";
  }
  return {rule.error_class, rule.code, std::move(message)};
}

bool NeedsReconnect(const Error& error) {
  std::span<const ReplyRule> rules = ReplyRules();
  return std::any_of(rules.begin(), rules.end(),
                     [&error](const ReplyRule& rule) { return rule.reconnect && error.code == rule.code; });
}

}  // namespace outbox::sink
