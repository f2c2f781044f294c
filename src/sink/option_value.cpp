#include "sink/option_value.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>

#include "base/letter_case.h"

namespace outbox::sink {
namespace {

constexpr size_t kLongestText = size_t{16} << 10;
constexpr size_t kLongestPem = size_t{256} << 10;
constexpr size_t kLongestHost = 255;

bool Digit(char c) {
  return c >= '0' && c <= '9';
}
bool Letter(char c) {
  return Lower(c) >= 'a' && Lower(c) <= 'z';
}

bool IsControl(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

bool CheckBool(std::string_view value, std::string* canonical) {
  for (const char* yes : {"true", "on", "yes", "1"}) {
    if (EqualsIgnoringCase(value, yes)) {
      *canonical = "true";
      return true;
    }
  }
  for (const char* no : {"false", "off", "no", "0"}) {
    if (EqualsIgnoringCase(value, no)) {
      *canonical = "false";
      return true;
    }
  }
  return false;
}

bool CheckInteger(const OptionRule& rule, std::string_view value, std::string* canonical) {
  int64_t number = 0;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < rule.min || number > rule.max) {
    return false;
  }
  *canonical = std::to_string(number);  // without leading zeros: librdkafka would read 0100 as octal
  return true;
}

bool CheckNumber(const OptionRule& rule, std::string_view value) {
  // Digits with one point at most: no exponents, signs, infinities.
  if (std::count(value.begin(), value.end(), '.') > 1 || !Digit(value.front()) || !Digit(value.back()) ||
      !std::all_of(value.begin(), value.end(), [](char c) { return Digit(c) || c == '.'; })) {
    return false;
  }
  double number = 0;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  return error == std::errc() && end == value.data() + value.size() && number >= static_cast<double>(rule.min) &&
         number <= static_cast<double>(rule.max);
}

bool CheckChoice(std::string_view choices, std::string_view value, std::string* canonical) {
  while (!choices.empty()) {
    std::string_view choice = choices.substr(0, choices.find('|'));
    if (EqualsIgnoringCase(choice, value)) {
      canonical->assign(choice);
      return true;
    }
    choices.remove_prefix(std::min(choices.size(), choice.size() + 1));
  }
  return false;
}

bool IsHostName(std::string_view host) {
  return !host.empty() && host.size() <= kLongestHost && host.front() != '-' && host.front() != '.' &&
         std::all_of(host.begin(), host.end(),
                     [](char c) { return Letter(c) || Digit(c) || c == '.' || c == '-' || c == '_'; });
}
bool IsIpv6(std::string_view host) {
  return host.size() >= 2 && host.size() <= kLongestHost && std::count(host.begin(), host.end(), ':') >= 2 &&
         std::all_of(host.begin(), host.end(), [](char c) {
           return Digit(c) || (Lower(c) >= 'a' && Lower(c) <= 'f') || c == ':' || c == '.' || c == '%';
         });
}
bool IsPort(std::string_view port) {
  std::string canonical;
  return CheckInteger({"", nullptr, OptionGroup::kOwner, ValueType::kInteger, 1, 65535, nullptr, ""}, port, &canonical);
}

// host, host:port, [v6] or [v6]:port
bool IsHostAndPort(std::string_view entry) {
  if (!entry.empty() && entry.front() == '[') {
    size_t close = entry.find(']');
    if (close == std::string_view::npos || !IsIpv6(entry.substr(1, close - 1))) {
      return false;
    }
    std::string_view rest = entry.substr(close + 1);
    return rest.empty() || (rest.front() == ':' && IsPort(rest.substr(1)));
  }
  size_t colon = entry.find(':');
  return colon == std::string_view::npos ? IsHostName(entry)
                                         : IsHostName(entry.substr(0, colon)) && IsPort(entry.substr(colon + 1));
}

bool CheckHosts(std::string_view value, std::string* canonical) {
  canonical->clear();
  while (true) {
    size_t comma = value.find(',');
    std::string_view entry = value.substr(0, comma);
    while (!entry.empty() && entry.front() == ' ') {
      entry.remove_prefix(1);
    }
    while (!entry.empty() && entry.back() == ' ') {
      entry.remove_suffix(1);
    }
    if (!IsHostAndPort(entry)) {
      return false;
    }
    canonical->append(canonical->empty() ? "" : ",").append(entry);
    if (comma == std::string_view::npos) {
      return true;
    }
    value.remove_prefix(comma + 1);
  }
}

std::string ChoicesText(std::string_view choices) {
  std::string text = "one of ";
  for (char c : choices) {
    text += c == '|' ? std::string(", ") : std::string(1, c);
  }
  return text;
}

bool CheckTyped(const OptionRule& rule, std::string_view value, std::string* canonical, std::string* expected) {
  switch (rule.type) {
    case ValueType::kText:
      return true;
    case ValueType::kPem:
      *expected = "text in PEM format, with its BEGIN and END lines";
      return value.find("-----BEGIN ") != std::string_view::npos && value.find("-----END ") != std::string_view::npos;
    case ValueType::kBool:
      *expected = "true or false";
      return CheckBool(value, canonical);
    case ValueType::kInteger:
      *expected = "a whole number between " + std::to_string(rule.min) + " and " + std::to_string(rule.max);
      return CheckInteger(rule, value, canonical);
    case ValueType::kNumber:
      *expected = "a number between " + std::to_string(rule.min) + " and " + std::to_string(rule.max);
      return CheckNumber(rule, value);
    case ValueType::kEnum:
      *expected = ChoicesText(rule.choices);
      return CheckChoice(rule.choices, value, canonical);
    case ValueType::kHosts:
      *expected = "a comma-separated list of host:port";
      return CheckHosts(value, canonical);
    case ValueType::kHost:
      *expected = "a host name or address, without a port";
      return IsHostName(value) || IsIpv6(value);
    case ValueType::kPath:
    case ValueType::kSocket:
      *expected = "an absolute file name";
      return value.front() == '/' && value.find("/../") == std::string_view::npos;
    case ValueType::kWord:
      *expected = "made of letters, digits and . _ / @ - only";
      return std::all_of(value.begin(), value.end(), [](char c) {
        return Letter(c) || Digit(c) || c == '.' || c == '_' || c == '/' || c == '@' || c == '-';
      });
  }
  return false;
}

}  // namespace

bool CheckValue(const OptionRule& rule, std::string_view value, std::string* canonical, std::string* expected) {
  canonical->assign(value);
  if (value.empty()) {
    *expected = "not empty";
    return false;
  }
  bool pem = rule.type == ValueType::kPem;
  size_t longest = pem ? kLongestPem : kLongestText;
  if (value.size() > longest) {
    *expected = "at most " + std::to_string(longest) + " bytes long";
    return false;
  }
  for (char c : value) {
    if (IsControl(c) && !(pem && (c == '\n' || c == '\r' || c == '\t'))) {
      *expected = "free of control characters and line breaks";
      return false;
    }
  }
  return CheckTyped(rule, value, canonical, expected);
}

}  // namespace outbox::sink
