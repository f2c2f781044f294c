// For fuzz targets: JSON as RFC 8259 has it, read by nothing of ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outbox::fuzz {

class Json {
 public:
  // nullopt: `text` is no JSON.
  static std::optional<Json> Read(std::string_view text) {
    Json json(text);
    json.Space();
    json.begin_ = json.at_;
    if (!json.Value(0)) {
      return std::nullopt;
    }
    json.Space();
    return json.at_ == text.size() ? std::optional<Json>(std::move(json)) : std::nullopt;
  }

  bool is_object() const { return text_[begin_] == '{'; }
  bool is_string() const { return text_[begin_] == '"'; }
  bool is_null() const { return text_[begin_] == 'n'; }
  // Of an object, in order: the name, and the value as it is written.
  const std::vector<std::pair<std::string, std::string_view>>& members() const { return members_; }
  // Of a string. Halves of a pair that stand alone become three bytes.
  std::string text() const { return Unescaped(text_.substr(begin_ + 1, text_.find_last_of('"') - begin_ - 1)); }

  static std::string Unescaped(std::string_view written) {
    std::string made;
    for (size_t i = 0; i < written.size(); ++i) {
      if (written[i] != '\\') {
        made.push_back(written[i]);
        continue;
      }
      const char c = written[++i];
      const size_t named = std::string_view("bfnrt").find(c);
      if (c != 'u') {
        made.push_back(named == std::string_view::npos ? c : "\b\f\n\r\t"[named]);
        continue;
      }
      uint32_t code = Unit(written, i + 1);
      i += 4;
      if (code >= 0xD800 && code < 0xDC00 && written.substr(i + 1, 2) == "\\u") {
        const uint32_t low = Unit(written, i + 3);
        if (low >= 0xDC00 && low < 0xE000) {
          code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
          i += 6;
        }
      }
      AppendUtf8(code, &made);
    }
    return made;
  }

 private:
  static constexpr int kDeepest = 5000;

  explicit Json(std::string_view text) : text_(text) {}

  static uint32_t Unit(std::string_view text, size_t at) {
    return static_cast<uint32_t>(std::stoul(std::string(text.substr(at, 4)), nullptr, 16));
  }
  static void AppendUtf8(uint32_t code, std::string* out) {
    const auto put = [out](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xC0 | code >> 6);
      put(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
      put(0xE0 | code >> 12);
      put(0x80 | (code >> 6 & 0x3F));
      put(0x80 | (code & 0x3F));
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
      put(0x80 | (code >> 6 & 0x3F));
      put(0x80 | (code & 0x3F));
    }
  }

  char Front() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool Take(char c) { return Front() == c && c != '\0' && ++at_ > 0; }
  void Space() {
    while (Front() == ' ' || Front() == '\t' || Front() == '\n' || Front() == '\r') {
      ++at_;
    }
  }
  bool Word(std::string_view word) {
    const bool good = text_.substr(at_, word.size()) == word;
    at_ += good ? word.size() : 0;
    return good;
  }
  bool Digits() {
    const size_t before = at_;
    while (Front() >= '0' && Front() <= '9') {
      ++at_;
    }
    return at_ > before;
  }
  bool Number() {
    Take('-');
    if (!Take('0') && !Digits()) {
      return false;
    }
    if (Take('.') && !Digits()) {
      return false;
    }
    if (Front() == 'e' || Front() == 'E') {
      ++at_;
      if (!Take('+')) {
        Take('-');
      }
      return Digits();
    }
    return true;
  }
  bool String() {
    if (!Take('"')) {
      return false;
    }
    while (at_ < text_.size() && Front() != '"') {
      const auto c = static_cast<unsigned char>(text_[at_++]);
      if (c < 0x20) {
        return false;
      }
      if (c == '\\') {
        const char escaped = Front();
        ++at_;
        if (escaped == 'u') {
          if (at_ + 4 > text_.size() ||
              text_.substr(at_, 4).find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
            return false;
          }
          at_ += 4;
        } else if (escaped == '\0' || std::string_view("\"\\/bfnrt").find(escaped) == std::string_view::npos) {
          return false;
        }
      }
    }
    return Take('"');
  }
  bool Member(int depth) {
    Space();
    const size_t name = at_;
    if (!String()) {
      return false;
    }
    const std::string_view written = text_.substr(name + 1, at_ - name - 2);
    Space();
    if (!Take(':')) {
      return false;
    }
    const size_t value = at_;
    if (!Value(depth + 1)) {
      return false;
    }
    if (depth == 0) {
      members_.emplace_back(Unescaped(written), text_.substr(value, at_ - value));
    }
    return true;
  }
  // Elements or members.
  bool Several(int depth, char end, bool named) {
    Space();
    if (Take(end)) {
      return true;
    }
    do {
      if (named ? !Member(depth) : !Value(depth + 1)) {
        return false;
      }
      Space();
    } while (Take(','));
    return Take(end);
  }
  bool Value(int depth) {
    if (depth > kDeepest) {
      return false;
    }
    Space();
    switch (Front()) {
      case '{':
        return Take('{') && Several(depth, '}', true);
      case '[':
        return Take('[') && Several(depth, ']', false);
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

  std::string_view text_;
  size_t at_ = 0;
  size_t begin_ = 0;
  std::vector<std::pair<std::string, std::string_view>> members_;
};

// nullopt: it is none, to the last bit.
inline std::optional<std::string> FromBase64(std::string_view text) {
  const std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0) {
    return std::nullopt;
  }
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 4) {
    const size_t count = i + 4 < text.size() ? 4 : text.ends_with("==") ? 2 : text.ends_with('=') ? 3 : 4;
    uint32_t bits = 0;
    for (size_t j = 0; j < 4; ++j) {
      const size_t digit = j < count ? digits.find(text[i + j]) : 0;
      if (digit == std::string_view::npos) {
        return std::nullopt;
      }
      bits = bits << 6 | static_cast<uint32_t>(digit);
    }
    for (size_t j = 0; j < count - 1; ++j) {
      bytes.push_back(static_cast<char>(bits >> (16 - 8 * j)));
    }
    if (count < 4 && (bits & (count == 2 ? 0xFFFF : 0xFF)) != 0) {
      return std::nullopt;
    }
  }
  return bytes;
}

}  // namespace outbox::fuzz
