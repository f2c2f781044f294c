// JSON as Kafka Connect's JsonConverter writes it [-], to the byte: of Connect 4.3, Jackson 2 and Java 21.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace outbox::format {

// Appends `text`, which is UTF-8, as a JSON string with its quotes. What is beyond U+FFFF is escaped, in two halves.
void AppendConnectString(std::string_view text, std::string* out);

// Appends a double as Java's Double.toString() does; what is not finite as a string, as Jackson does.
void AppendJavaDouble(double value, std::string* out);

// --- parts of a string ---
// A UTF-16 unit that was escaped. Halves of what is beyond U+FFFF stay escaped.
void AppendUnit(uint32_t unit, std::string* out);
// The character at text[i], which is UTF-8; returns its length.
size_t AppendCharacter(std::string_view text, size_t i, std::string* out);
// Of those, one that stands for itself.
bool IsPlainAscii(unsigned char c);

}  // namespace outbox::format
