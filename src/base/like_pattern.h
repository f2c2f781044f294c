// Patterns of ours (format/pattern.h: * is any run of characters) as LIKE of PostgreSQL wants them [-]: in C++, and the
// same in SQL.
#pragma once

#include <string>
#include <string_view>

namespace outbox {

// `any_run`: what a * becomes; without, it stands for itself.
inline std::string LikeText(std::string_view pattern, char any_run = '*') {
  std::string like;
  for (const char c : pattern) {
    if (c == '%' || c == '_' || c == '\\') {
      like += '\\';
    }
    like += c == '*' ? any_run : c;
  }
  return like;
}

}  // namespace outbox

// `pattern`: an expression of SQL, in quotes.
#define OUTBOX_LIKE_PATTERN(pattern) \
  "replace(replace(replace(replace(" pattern ", '\\', '\\\\'), '%', '\\%'), '_', '\\_'), '*', '%')"
