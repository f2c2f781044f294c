#include "base/uuid.h"

namespace outbox {

namespace {

constexpr int64_t kMicrosPerMilli = 1000;
constexpr char kHex[] = "0123456789abcdef";

// -1 for no hexadecimal digit.
int HexValue(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  if (c >= 'A' && c <= 'F') {
    return c - 'A' + 10;
  }
  return -1;
}

// A hyphen precedes these bytes in the text form.
constexpr bool HyphenBefore(int byte) {
  return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

// Written out, compilers see one store in it.
void PutBigEndian(uint64_t value, uint8_t* to) {
  to[0] = static_cast<uint8_t>(value >> 56);
  to[1] = static_cast<uint8_t>(value >> 48);
  to[2] = static_cast<uint8_t>(value >> 40);
  to[3] = static_cast<uint8_t>(value >> 32);
  to[4] = static_cast<uint8_t>(value >> 24);
  to[5] = static_cast<uint8_t>(value >> 16);
  to[6] = static_cast<uint8_t>(value >> 8);
  to[7] = static_cast<uint8_t>(value);
}

}  // namespace

Uuid MakeUuid7(int64_t micros, uint64_t random) {
  const uint64_t millis = static_cast<uint64_t>(micros / kMicrosPerMilli);
  const uint64_t within = static_cast<uint64_t>(micros % kMicrosPerMilli);
  const uint64_t high = millis << 16 | uint64_t{7} << 12 | within;
  const uint64_t low = uint64_t{2} << 62 | (random & ~(uint64_t{3} << 62));
  Uuid id;
  PutBigEndian(high, id.data());
  PutBigEndian(low, id.data() + 8);
  return id;
}

std::optional<int64_t> Uuid7Micros(const Uuid& id) {
  const bool version7 = id[6] >> 4 == 7;
  const bool variant = id[8] >> 6 == 2;
  const int64_t within = (id[6] & 0x0F) << 8 | id[7];
  if (!version7 || !variant || within >= kMicrosPerMilli) {
    return std::nullopt;
  }
  int64_t millis = 0;
  for (int i = 0; i < 6; ++i) {
    millis = millis << 8 | id[i];
  }
  return millis * kMicrosPerMilli + within;
}

void FormatUuid(const Uuid& id, char* out) {
  for (int i = 0; i < 16; ++i) {
    if (HyphenBefore(i)) {
      *out++ = '-';
    }
    *out++ = kHex[id[i] >> 4];
    *out++ = kHex[id[i] & 0x0F];
  }
}

std::string UuidText(const Uuid& id) {
  std::string text(kUuidTextLength, '\0');
  FormatUuid(id, text.data());
  return text;
}

std::optional<Uuid> ParseUuid(std::string_view text) {
  if (text.size() != kUuidTextLength) {
    return std::nullopt;
  }
  Uuid id;
  const char* at = text.data();
  for (int i = 0; i < 16; ++i) {
    if (HyphenBefore(i) && *at++ != '-') {
      return std::nullopt;
    }
    const int high = HexValue(*at++);
    const int low = HexValue(*at++);
    if (high < 0 || low < 0) {
      return std::nullopt;
    }
    id[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return id;
}

}  // namespace outbox
