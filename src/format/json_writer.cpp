#include "format/json_writer.h"

#include <cstdint>

#include "base/utf8.h"

namespace outbox::format {

namespace {

constexpr char kHex[] = "0123456789abcdef";
constexpr size_t kDeepest = 1000;

// Looks at one JSON value, from the front.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  // Without recursion: how deep a payload nests is its writer's choice. `open_` has one of { and [ for each level.
  bool Document() {
    while (true) {
      if (!Opening()) {
        return false;
      }
      // A value is complete: what closes behind it, and whether another follows.
      while (true) {
        Space();
        if (open_.empty()) {
          return at_ == end_;
        }
        if (at_ == end_) {
          return false;
        }
        const char c = *at_++;
        if (c == ',') {
          if (open_.back() == '{' && !Name()) {
            return false;
          }
          break;
        }
        if (c != (open_.back() == '{' ? '}' : ']')) {
          return false;
        }
        open_.pop_back();
      }
    }
  }

 private:
  // Up to the end of the first value that is no list or object with something in it.
  bool Opening() {
    while (true) {
      Space();
      if (at_ == end_) {
        return false;
      }
      if (*at_ != '{' && *at_ != '[') {
        return Scalar();
      }
      const char opened = *at_++;
      Space();
      if (at_ != end_ && *at_ == (opened == '{' ? '}' : ']')) {
        ++at_;
        return true;
      }
      if (open_.size() == kDeepest) {
        return false;
      }
      open_.push_back(opened);
      if (opened == '{' && !Name()) {
        return false;
      }
    }
  }

  bool Name() {
    Space();
    if (at_ == end_ || *at_ != '"' || !String()) {
      return false;
    }
    Space();
    return Take(':');
  }

  bool Scalar() {
    switch (*at_) {
      case '"':
        return String();
      case 't':
        return Word("true");
      case 'f':
        return Word("false");
      case 'n':
        return Word("null");
      default:
        return Number();
    }
  }

  bool String() {
    for (++at_; at_ != end_; ++at_) {
      const auto c = static_cast<unsigned char>(*at_);
      if (c == '"') {
        ++at_;
        return true;
      }
      if (c < 0x20 || (c == '\\' && !Escape())) {
        return false;
      }
    }
    return false;
  }

  // Stays on its last character.
  bool Escape() {
    if (++at_ == end_) {
      return false;
    }
    if (*at_ != 'u') {
      return std::string_view("\"\\/bfnrt").find(*at_) != std::string_view::npos;
    }
    for (int i = 0; i < 4; ++i) {
      if (++at_ == end_ || std::string_view("0123456789abcdefABCDEF").find(*at_) == std::string_view::npos) {
        return false;
      }
    }
    return true;
  }

  bool Number() {
    Take('-');
    if (!Take('0') && !Digits()) {
      return false;
    }
    if (Take('.') && !Digits()) {
      return false;
    }
    if (Take('e') || Take('E')) {
      if (!Take('+')) {
        Take('-');
      }
      return Digits();
    }
    return true;
  }

  bool Digits() {
    const char* first = at_;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9') {
      ++at_;
    }
    return at_ != first;
  }

  bool Word(std::string_view word) {
    if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(word)) {
      return false;
    }
    at_ += word.size();
    return true;
  }

  bool Take(char c) {
    if (at_ == end_ || *at_ != c) {
      return false;
    }
    ++at_;
    return true;
  }

  void Space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\n' || *at_ == '\r')) {
      ++at_;
    }
  }

  const char* at_;
  const char* end_;
  std::string open_;
};

}  // namespace

void AppendJsonString(std::string_view text, std::string* out) {
  out->push_back('"');
  size_t plain = 0;  // where what is not yet appended begins
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') {
      continue;
    }
    out->append(text.substr(plain, i - plain));
    plain = i + 1;
    out->push_back('\\');
    switch (c) {
      case '\b':
        out->push_back('b');
        break;
      case '\f':
        out->push_back('f');
        break;
      case '\n':
        out->push_back('n');
        break;
      case '\r':
        out->push_back('r');
        break;
      case '\t':
        out->push_back('t');
        break;
      case '"':
      case '\\':
        out->push_back(static_cast<char>(c));
        break;
      default:
        out->append("u00").push_back(kHex[c >> 4]);
        out->push_back(kHex[c & 15]);
    }
  }
  out->append(text.substr(plain)).push_back('"');
}

void AppendBase64(std::string_view bytes, std::string* out) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    const size_t here = bytes.size() - i < 3 ? bytes.size() - i : 3;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (j < here ? static_cast<uint8_t>(bytes[i + j]) : 0);
    }
    for (size_t j = 0; j < 4; ++j) {
      out->push_back(j <= here ? kDigits[group >> (18 - 6 * j) & 63] : '=');
    }
  }
}

bool IsJson(std::string_view text) {
  return IsUtf8(text) && Scanner(text).Document();
}

}  // namespace outbox::format
