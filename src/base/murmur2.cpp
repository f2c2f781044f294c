#include "base/murmur2.h"

namespace outbox {

uint32_t Murmur2(std::string_view bytes) {
  constexpr uint32_t kSeed = 0x9747b28c;
  constexpr uint32_t kMultiplier = 0x5bd1e995;
  constexpr int kShift = 24;

  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t left = bytes.size();
  uint32_t hash = kSeed ^ static_cast<uint32_t>(left);
  for (; left >= 4; at += 4, left -= 4) {
    // Java reads little-endian; so does this, on any machine.
    uint32_t word = uint32_t{at[0]} | uint32_t{at[1]} << 8 | uint32_t{at[2]} << 16 | uint32_t{at[3]} << 24;
    word *= kMultiplier;
    word ^= word >> kShift;
    word *= kMultiplier;
    hash *= kMultiplier;
    hash ^= word;
  }
  switch (left) {
    case 3:
      hash ^= uint32_t{at[2]} << 16;
      [[fallthrough]];
    case 2:
      hash ^= uint32_t{at[1]} << 8;
      [[fallthrough]];
    case 1:
      hash ^= uint32_t{at[0]};
      hash *= kMultiplier;
  }
  hash ^= hash >> 13;
  hash *= kMultiplier;
  hash ^= hash >> 15;
  return hash;
}

}  // namespace outbox
