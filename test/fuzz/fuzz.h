// For fuzz targets: a reader of the fuzzer's bytes, and checks that end the process with a line that says what broke.
//
// A target asserts what must hold for every input, not only that nothing crashes. It keeps no state between inputs, so
// that a file in build/fuzz/ that once failed fails again alone: build/unit-address-undefined/NAME_fuzz FILE.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace outbox::fuzz {

// FUZZ_CHECK(condition): libFuzzer keeps the input of a run that ends in abort().
#define FUZZ_CHECK(condition)                                                             \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)

// Hands out the fuzzer's bytes from the front; zeros and empty texts when they are used up.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : bytes_(reinterpret_cast<const char*>(data), size) {}
  template <typename Number>
  Number Take() {
    Number number{};
    std::string_view bytes = TakeBytes(sizeof(number));
    if (!bytes.empty()) {
      std::memcpy(&number, bytes.data(), bytes.size());
    }
    return number;
  }
  uint64_t Below(uint64_t bound) { return Take<uint64_t>() % bound; }
  bool Flag() { return (Take<uint8_t>() & 1) != 0; }
  std::string_view TakeBytes(size_t size) {
    std::string_view bytes = bytes_.substr(0, size);
    bytes_.remove_prefix(bytes.size());
    return bytes;
  }
  // One byte of length, then the text.
  std::string_view Text() { return TakeBytes(Take<uint8_t>()); }
  // Up to the next line end, which is dropped: seeds can be written in an editor.
  std::string_view Line() {
    std::string_view line = bytes_.substr(0, bytes_.find('\n'));
    bytes_.remove_prefix(line.size() < bytes_.size() ? line.size() + 1 : line.size());
    return line;
  }
  std::string_view rest() const { return bytes_; }
  bool empty() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

// Well-formed UTF-8 as Postgres and Kafka's clients define it (Unicode 15, table 3-7).
inline bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    auto byte = [&text](size_t at) { return at < text.size() ? static_cast<uint8_t>(text[at]) : uint8_t{0}; };
    auto continues = [&byte](size_t at) { return (byte(at) & 0xC0) == 0x80; };
    const uint8_t first = byte(i);
    const uint8_t second = byte(i + 1);
    if (first < 0x80) {
      i += 1;
    } else if (first >= 0xC2 && first <= 0xDF && continues(i + 1)) {
      i += 2;
    } else if (first >= 0xE0 && first <= 0xEF && continues(i + 1) && continues(i + 2) &&
               (first != 0xE0 || second >= 0xA0) && (first != 0xED || second <= 0x9F)) {
      i += 3;
    } else if (first >= 0xF0 && first <= 0xF4 && continues(i + 1) && continues(i + 2) && continues(i + 3) &&
               (first != 0xF0 || second >= 0x90) && (first != 0xF4 || second <= 0x8F)) {
      i += 4;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace outbox::fuzz
