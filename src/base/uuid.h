// UUIDs, and the UUIDv7 layout of event ids [-] (RFC 9562, 5.7 and 6.2 method 3).
//
//   48 bits  milliseconds since the Unix epoch
//    4 bits  version 7
//   12 bits  rand_a: microseconds within the millisecond, 0..999, in its low 10 bits (the high 2 are zero)
//    2 bits  variant
//   62 bits  rand_b: random
//
// The clock reading that an id was made from can be read back, exactly.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace outbox {

using Uuid = std::array<uint8_t, 16>;

inline constexpr int kUuidTextLength = 36;

// `micros`: Unix microseconds, 0 <= micros < 2^48 * 1000. `random`: 62 random bits in the low end.
Uuid MakeUuid7(int64_t micros, uint64_t random);
// The clock reading inside an id made by MakeUuid7; nothing for an id that cannot have been (not version 7, rand_a >
// 999).
std::optional<int64_t> Uuid7Micros(const Uuid& id);
// Writes 36 lower-case characters, no terminator.
void FormatUuid(const Uuid& id, char* out);
std::string UuidText(const Uuid& id);
std::optional<Uuid> ParseUuid(std::string_view text);

}  // namespace outbox
