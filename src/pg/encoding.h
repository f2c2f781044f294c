// Conversion between the server's encoding, which tables and clients use, and UTF-8, in which lanes compare, hash and
// publish text [P]. All plain. The conversions raise if a character has no counterpart (but TryUtf8), and return their
// argument if there is nothing to do (always in a database in UTF-8 or SQL_ASCII); else the result is palloc'd.
#pragma once

#include <string_view>

#include "pg/prelude.h"

namespace outbox::pg {

bool SpeaksUtf8();  // nothing ever has to be converted

std::string_view Utf8(std::string_view text);
std::string_view FromUtf8(std::string_view text);
// As Utf8(), but nullptr if a character has no counterpart. In a transaction.
const char* TryUtf8(const char* text);

// `text`, at most so many bytes of it and "..." behind them: whole characters.
const char* CutShort(const char* text, int most);

// What is not ASCII, and zero bytes, become "?": fit for every encoding. Never raises.
void KeepAscii(char* bytes, size_t size);

}  // namespace outbox::pg
