#include "format/connect_json.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace outbox::format {

namespace {

constexpr char kUpperHex[] = "0123456789ABCDEF";

void AppendUnicodeEscape(uint32_t unit, std::string* out) {
  out->append("\\u");
  for (int shift = 12; shift >= 0; shift -= 4) {
    out->push_back(kUpperHex[unit >> shift & 15]);
  }
}

// A character below U+0080.
void AppendAscii(unsigned char c, std::string* out) {
  switch (c) {
    case '"':
    case '\\':
      out->push_back('\\');
      out->push_back(static_cast<char>(c));
      return;
    case '\b':
      out->append("\\b");
      return;
    case '\f':
      out->append("\\f");
      return;
    case '\n':
      out->append("\\n");
      return;
    case '\r':
      out->append("\\r");
      return;
    case '\t':
      out->append("\\t");
      return;
    default:
      if (c < 0x20) {
        AppendUnicodeEscape(c, out);
      } else {
        out->push_back(static_cast<char>(c));
      }
  }
}

}  // namespace

void AppendUnit(uint32_t unit, std::string* out) {
  if (unit < 0x80) {
    AppendAscii(static_cast<unsigned char>(unit), out);
  } else if (unit >= 0xD800 && unit <= 0xDFFF) {
    AppendUnicodeEscape(unit, out);
  } else if (unit < 0x800) {
    out->push_back(static_cast<char>(0xC0 | unit >> 6));
    out->push_back(static_cast<char>(0x80 | (unit & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xE0 | unit >> 12));
    out->push_back(static_cast<char>(0x80 | (unit >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (unit & 0x3F)));
  }
}

size_t AppendCharacter(std::string_view text, size_t i, std::string* out) {
  const auto c = static_cast<unsigned char>(text[i]);
  if (c < 0x80) {
    AppendAscii(c, out);
    return 1;
  }
  const size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
  if (length < 4 || text.size() - i < 4) {
    out->append(text.substr(i, length));
    return length;
  }
  const auto byte = [&](size_t n) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i + n]) & 0x3F); };
  const uint32_t beyond = ((static_cast<uint32_t>(c) & 7) << 18 | byte(1) << 12 | byte(2) << 6 | byte(3)) - 0x10000;
  AppendUnicodeEscape(0xD800 + (beyond >> 10), out);
  AppendUnicodeEscape(0xDC00 + (beyond & 0x3FF), out);
  return 4;
}

bool IsPlainAscii(unsigned char c) {
  return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

void AppendConnectString(std::string_view text, std::string* out) {
  out->push_back('"');
  size_t plain = 0;  // where what is not yet appended begins
  for (size_t i = 0; i < text.size();) {
    if (IsPlainAscii(static_cast<unsigned char>(text[i]))) {
      ++i;
      continue;
    }
    out->append(text.substr(plain, i - plain));
    i += AppendCharacter(text, i, out);
    plain = i;
  }
  out->append(plain < text.size() ? text.substr(plain) : std::string_view()).push_back('"');
}

void AppendJavaDouble(double value, std::string* out) {
  if (std::isnan(value)) {
    out->append("\"NaN\"");
    return;
  }
  if (std::isinf(value)) {
    out->append(value < 0 ? "\"-Infinity\"" : "\"Infinity\"");
    return;
  }
  if (std::signbit(value)) {
    out->push_back('-');
    value = -value;
  }
  if (value == 0) {
    out->append("0.0");
    return;
  }
  // d.ddde+xx, the shortest that reads back as the same; of a single digit Java takes the nearest of two.
  char text[40];
  const auto shortest = std::to_chars(text, std::end(text), value, std::chars_format::scientific);
  *shortest.ptr = '\0';
  if (text[1] == 'e') {
    std::snprintf(text, sizeof(text), "%.1e", value);
  }
  std::string digits;
  const char* at = text;
  for (; *at != 'e'; ++at) {
    if (*at >= '0' && *at <= '9') {
      digits.push_back(*at);
    }
  }
  ++at;
  int exponent = 0;
  std::from_chars(*at == '+' ? at + 1 : at, at + std::char_traits<char>::length(at), exponent);
  while (digits.size() > 1 && digits.back() == '0') {
    digits.pop_back();
  }
  if (exponent >= -3 && exponent < 7) {
    if (exponent < 0) {
      out->append("0.").append(static_cast<size_t>(-exponent - 1), '0').append(digits);
      return;
    }
    const auto whole = static_cast<size_t>(exponent) + 1;
    if (digits.size() < whole) {
      digits.append(whole - digits.size(), '0');
    }
    out->append(digits, 0, whole).push_back('.');
    out->append(digits.size() > whole ? digits.substr(whole) : "0");
    return;
  }
  out->push_back(digits[0]);
  out->append(".").append(digits.size() > 1 ? digits.substr(1) : "0").append("E").append(std::to_string(exponent));
}

}  // namespace outbox::format
