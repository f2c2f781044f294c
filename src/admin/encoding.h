// Between the server's encoding, in which tables and people have their texts, and UTF-8, in which lanes compare, hash
// and publish them [P]. Both throw PgError where a character has no counterpart; in a database in UTF-8 or SQL_ASCII
// both change nothing.
#pragma once

#include <string>
#include <string_view>

#include "admin/query.h"

namespace outbox::admin {

bool SpeaksUtf8();  // nothing has to be changed

std::string Utf8(std::string_view text);
std::string FromUtf8(std::string_view text);
Cell Utf8Cell(const Cell& text);  // NULL stays NULL

}  // namespace outbox::admin
