#include "admin/encoding.h"

extern "C" {
#include "mb/pg_wchar.h"
}

namespace outbox::admin {

namespace {

// convert(bytes, size): one of pg_wchar.h's, which answer with their argument where there is nothing to do.
template <typename Convert>
std::string Converted(std::string_view text, Convert&& convert) {
  if (SpeaksUtf8() || text.empty()) {
    return std::string(text);
  }
  const char* bytes = text.data();
  const int size = static_cast<int>(text.size());
  char* converted = pg::Guard([&] { return convert(bytes, size); });
  if (converted == bytes) {
    return std::string(text);
  }
  std::string result(converted);
  pg::Guard([&] { pfree(converted); });
  return result;
}

}  // namespace

bool SpeaksUtf8() {
  return GetDatabaseEncoding() == PG_UTF8 || GetDatabaseEncoding() == PG_SQL_ASCII;
}

std::string Utf8(std::string_view text) {
  return Converted(text, [](const char* bytes, int size) { return pg_server_to_any(bytes, size, PG_UTF8); });
}

std::string FromUtf8(std::string_view text) {
  return Converted(text, [](const char* bytes, int size) { return pg_any_to_server(bytes, size, PG_UTF8); });
}

Cell Utf8Cell(const Cell& text) {
  return text ? Cell(Utf8(std::string_view(*text))) : Cell();
}

}  // namespace outbox::admin
