// Between the server's encoding, in which tables and people have their texts, and UTF-8, in which lanes compare, hash
// and publish them [P]. All plain. The conversions raise where a character has no counterpart, and answer with their
// argument where there is nothing to do: in a database in UTF-8 or SQL_ASCII, always; else what they return is
// palloc'd.
#pragma once

#include <string_view>

#include "pg/prelude.h"

namespace outbox::pg {

bool SpeaksUtf8();  // nothing ever has to be converted

std::string_view Utf8(std::string_view text);
std::string_view FromUtf8(std::string_view text);

// What is not ASCII, and zero bytes, become "?": fit for every encoding. Never raises.
void KeepAscii(char* bytes, size_t size);

}  // namespace outbox::pg
