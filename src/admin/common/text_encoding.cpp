#include "admin/common/text_encoding.h"

#include "pg/encoding.h"

namespace outbox::admin {

namespace {

template <typename Convert>
std::string Converted(std::string_view text, Convert&& convert) {
  std::string_view converted = pg::Guard([&] { return convert(text); });
  std::string result(converted);
  if (converted.data() != text.data()) {
    pg::Guard([&] { pfree(const_cast<char*>(converted.data())); });
  }
  return result;
}

}  // namespace

std::string Utf8(std::string_view text) {
  return Converted(text, pg::Utf8);
}

std::string FromUtf8(std::string_view text) {
  return Converted(text, pg::FromUtf8);
}

Cell Utf8Cell(const Cell& text) {
  return text ? Cell(Utf8(std::string_view(*text))) : Cell();
}

}  // namespace outbox::admin
