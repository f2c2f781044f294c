// pg/encoding.h for C++ code that owns things [P]. They throw PgError where a character has no counterpart.
#pragma once

#include <string>
#include <string_view>

#include "admin/common/query.h"

namespace outbox::admin {

std::string Utf8(std::string_view text);
std::string FromUtf8(std::string_view text);
Cell Utf8Cell(const Cell& text);  // NULL stays NULL

}  // namespace outbox::admin
