// UTF-8: is it, and makes text from outside (error replies, messages of a sink process) fit for tables, logs and
// terminals [-].
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace outbox {

// At most `limit` bytes of `text`, cut between characters: a byte that is no part of a well-formed UTF-8 character
// (Unicode 15, table 3-7) becomes "?", a control character (zero bytes and line ends among them) a space.
std::string PrintableUtf8(std::string_view text, size_t limit);

// As PrintableUtf8, for names, where a tab matters: control characters stay, but a zero byte becomes "?".
std::string WellFormedUtf8(std::string_view text, size_t limit);

// As it is, but each byte that is no part of a well-formed character is spelled \xNN: what differs still does.
std::string SpelledUtf8(std::string_view text);

// As it is, but what a terminal obeys and no reader sees is spelled, \x1b or \u202e: control characters (C0, DEL, C1),
// line and paragraph separators, and what changes the direction of text. For names made of keys, where people look.
std::string LegibleUtf8(std::string_view text);

// The same of the character at the front of `text`, which is not empty, without allocating: its bytes as LegibleUtf8
// has them, in `text` or in `spelled`. *length is how many they are in `text`.
std::string_view LegibleCharacter(std::string_view text, char (&spelled)[6], size_t* length);

// How many bytes the character at the front of `text`, which is not empty, has; 0: it is malformed.
size_t Utf8CharacterLength(std::string_view text);

// Whether it has a control character: C0, DEL, or C1 (U+0080 to U+009F).
bool HoldsControl(std::string_view text);

// Whether it, which is well-formed, has a noncharacter: U+FDD0 to U+FDEF, or one of the last two of a plane.
bool HoldsNoncharacter(std::string_view text);

// Whether all of it is well-formed. Zero bytes and other control characters are.
bool IsUtf8(std::string_view text);

}  // namespace outbox
