#include "admin/common/route_name.h"

#include <algorithm>

namespace outbox::admin {

namespace {

constexpr size_t kMaxRouteName = 63;

}  // namespace

std::string CheckRouteName(const Cell& name) {
  if (!name) {
    throw pg::UserError{
        ERRCODE_NULL_VALUE_NOT_ALLOWED, "a route needs a name", "",
        "SELECT name FROM outbox.route shows all routes; a new one may have any name of up to 63 bytes."};
  }
  bool blank = std::all_of(name->begin(), name->end(), [](unsigned char c) { return c <= ' '; });
  bool control = std::any_of(name->begin(), name->end(), [](unsigned char c) { return c < ' ' || c == 127; });
  if (blank || control || name->size() > kMaxRouteName) {
    throw pg::UserError{ERRCODE_INVALID_PARAMETER_VALUE, "invalid route name \"" + *name + "\"", "",
                        "A name has 1 to 63 bytes, not only spaces, and no control characters."};
  }
  return *name;
}

}  // namespace outbox::admin
