#include "pg/encoding.h"

extern "C" {
#include "catalog/namespace.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
}

namespace outbox::pg {

namespace {

std::string_view Answer(std::string_view text, const char* converted) {
  return converted == text.data() ? text : std::string_view(converted);
}

}  // namespace

// Asked for each text of each event: a database's encoding stays what it is, and a process has one database.
bool SpeaksUtf8() {
  static Oid database = InvalidOid;
  static bool speaks = false;
  if (database != MyDatabaseId || database == InvalidOid) {
    database = MyDatabaseId;
    speaks = GetDatabaseEncoding() == PG_UTF8 || GetDatabaseEncoding() == PG_SQL_ASCII;
  }
  return speaks;
}

std::string_view Utf8(std::string_view text) {
  if (SpeaksUtf8() || text.empty()) {
    return text;
  }
  return Answer(text, pg_server_to_any(text.data(), static_cast<int>(text.size()), PG_UTF8));
}

std::string_view FromUtf8(std::string_view text) {
  if (SpeaksUtf8() || text.empty()) {
    return text;
  }
  return Answer(text, pg_any_to_server(text.data(), static_cast<int>(text.size()), PG_UTF8));
}

const char* TryUtf8(const char* text) {
  const int size = static_cast<int>(strlen(text));
  if (SpeaksUtf8() || size == 0) {
    return text;
  }
  const Oid conversion = FindDefaultConversionProc(GetDatabaseEncoding(), PG_UTF8);
  if (!OidIsValid(conversion)) {
    return nullptr;
  }
  const int room = size * MAX_CONVERSION_GROWTH + 1;
  char* converted = static_cast<char*>(palloc(static_cast<Size>(room)));
  auto* from = reinterpret_cast<unsigned char*>(const_cast<char*>(text));
  const int done = pg_do_encoding_conversion_buf(conversion, GetDatabaseEncoding(), PG_UTF8, from, size,
                                                 reinterpret_cast<unsigned char*>(converted), room, true);
  return done == size ? converted : nullptr;
}

const char* CutShort(const char* text, int most) {
  const int size = static_cast<int>(strlen(text));
  return size <= most ? text : psprintf("%s...", pnstrdup(text, pg_mbcliplen(text, size, most)));
}

void KeepAscii(char* bytes, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (IS_HIGHBIT_SET(bytes[i]) || bytes[i] == '\0') {
      bytes[i] = '?';
    }
  }
}

}  // namespace outbox::pg
