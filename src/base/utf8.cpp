#include "base/utf8.h"

#include <cstdint>
#include <cstring>

namespace outbox {

size_t Utf8CharacterLength(std::string_view text) {
  auto byte = [&text](size_t at) { return at < text.size() ? static_cast<uint8_t>(text[at]) : uint8_t{0}; };
  const uint8_t first = byte(0);
  if (first < 0x80) {
    return 1;
  }
  // The second byte's range excludes overlong forms, surrogates and what is above U+10FFFF.
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  size_t length = 0;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    low = first == 0xE0 ? 0xA0 : low;
    high = first == 0xED ? 0x9F : high;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    low = first == 0xF0 ? 0x90 : low;
    high = first == 0xF4 ? 0x8F : high;
  }
  if (length == 0 || byte(1) < low || byte(1) > high) {
    return 0;
  }
  for (size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      return 0;
    }
  }
  return length;
}

namespace {

// `control`(byte): what becomes of a control character.
template <typename Control>
std::string Clean(std::string_view text, size_t limit, Control&& control) {
  std::string clean;
  while (!text.empty()) {
    const size_t length = Utf8CharacterLength(text);
    const size_t kept = length == 0 ? 1 : length;
    if (clean.size() + kept > limit) {
      break;
    }
    const auto first = static_cast<uint8_t>(text.front());
    if (length == 0) {
      clean += '?';
    } else if (first < 0x20 || first == 0x7F) {
      clean += control(text.front());
    } else {
      clean.append(text.substr(0, length));
    }
    text.remove_prefix(kept);
  }
  return clean;
}

}  // namespace

std::string PrintableUtf8(std::string_view text, size_t limit) {
  return Clean(text, limit, [](char) { return ' '; });
}

std::string WellFormedUtf8(std::string_view text, size_t limit) {
  return Clean(text, limit, [](char control) { return control == '\0' ? '?' : control; });
}

std::string SpelledUtf8(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string spelled;
  while (!text.empty()) {
    const size_t length = Utf8CharacterLength(text);
    if (length == 0) {
      const auto byte = static_cast<uint8_t>(text.front());
      spelled += "\\x";
      spelled += kDigits[byte / 16];
      spelled += kDigits[byte % 16];
    } else {
      spelled.append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return spelled;
}

namespace {

// The code point of a well-formed character of so many bytes, if it has three at most; else 0.
uint32_t CodePoint(std::string_view text, size_t length) {
  const auto byte = [&text](size_t at) { return static_cast<uint32_t>(static_cast<uint8_t>(text[at])); };
  return length == 1   ? byte(0)
         : length == 2 ? (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F)
         : length == 3 ? (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F)
                       : 0;
}

bool IsLegible(uint32_t point) {
  return (point >= 0x20 && point < 0x7F) || (point >= 0xA0 && point != 0x061C && point != 0x200E && point != 0x200F &&
                                             (point < 0x2028 || point > 0x202E) && (point < 0x2066 || point > 0x2069));
}

}  // namespace

std::string_view LegibleCharacter(std::string_view text, char (&spelled)[6], size_t* length) {
  constexpr char kDigits[] = "0123456789abcdef";
  const size_t well_formed = Utf8CharacterLength(text);
  *length = well_formed == 0 ? 1 : well_formed;
  const uint32_t point = CodePoint(text, well_formed);
  if (well_formed == 0 || well_formed > 3 || IsLegible(point)) {
    return text.substr(0, *length);
  }
  char* at = spelled;
  *at++ = '\\';
  *at++ = point < 0x100 ? 'x' : 'u';
  for (int shift = point < 0x100 ? 4 : 12; shift >= 0; shift -= 4) {
    *at++ = kDigits[point >> shift & 0xF];
  }
  return {spelled, static_cast<size_t>(at - spelled)};
}

std::string LegibleUtf8(std::string_view text) {
  std::string legible;
  char spelled[6];
  for (size_t length = 0; !text.empty(); text.remove_prefix(length)) {
    legible.append(LegibleCharacter(text, spelled, &length));
  }
  return legible;
}

bool HoldsControl(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<uint8_t>(text[i]);
    // C1 has two bytes.
    if (c < 0x20 || c == 0x7F || (c == 0xC2 && i + 1 < text.size() && static_cast<uint8_t>(text[i + 1]) < 0xA0)) {
      return true;
    }
  }
  return false;
}

bool HoldsNoncharacter(std::string_view text) {
  const auto byte = [&text](size_t at) { return at < text.size() ? static_cast<uint8_t>(text[at]) : uint8_t{0}; };
  for (size_t i = 0; i < text.size(); ++i) {
    const uint8_t first = byte(i);
    if (first < 0xEF) {
      continue;
    }
    const uint8_t second = byte(i + 1);
    const uint8_t third = byte(i + 2);
    if (first == 0xEF ? (second == 0xB7 && third >= 0x90 && third <= 0xAF) || (second == 0xBF && third >= 0xBE)
                      : (second & 0x0F) == 0x0F && third == 0xBF && byte(i + 3) >= 0xBE) {
      return true;
    }
  }
  return false;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    // Eight characters of ASCII at once.
    for (uint64_t eight = 0; text.size() >= sizeof(eight); text.remove_prefix(sizeof(eight))) {
      std::memcpy(&eight, text.data(), sizeof(eight));
      if ((eight & 0x8080808080808080) != 0) {
        break;
      }
    }
    if (text.empty()) {
      break;
    }
    const size_t length = Utf8CharacterLength(text);
    if (length == 0) {
      return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace outbox
