#include "pg/statement_arguments.h"

#include "pg/encoding.h"

extern "C" {
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/fmgrprotos.h"
#include "utils/uuid.h"
}

namespace outbox::pg {

namespace {

Datum HeaderArray(const HeaderView& headers, bool names) {
  int count = 0;
  headers.ForEach([&](std::string_view, std::string_view) { count++; });
  Column column(count);
  headers.ForEach([&](std::string_view name, std::string_view value) { column.Add(ServerText(names ? name : value)); });
  return column.Array(TEXTOID);
}

}  // namespace

Datum TextDatum(std::string_view bytes) {
  return PointerGetDatum(cstring_to_text_with_len(bytes.data(), static_cast<int>(bytes.size())));
}

Datum ServerText(std::string_view text) {
  return TextDatum(FromUtf8(text));
}

Datum ForeignText(std::string_view text) {
  bool utf8 =
      GetDatabaseEncoding() == PG_UTF8 && pg_verify_mbstr(PG_UTF8, text.data(), static_cast<int>(text.size()), true);
  Datum datum = TextDatum(text);
  if (!utf8) {
    KeepAscii(VARDATA(DatumGetPointer(datum)), text.size());
  }
  return datum;
}

Datum HeadersDatum(const HeaderView& headers) {
  return DirectFunctionCall2(jsonb_object_two_arg, HeaderArray(headers, true), HeaderArray(headers, false));
}

Datum UuidDatum(const Uuid& id) {
  auto* uuid = static_cast<pg_uuid_t*>(palloc(sizeof(pg_uuid_t)));
  memcpy(uuid->data, id.data(), sizeof(uuid->data));
  return UUIDPGetDatum(uuid);
}

Datum Column::Array(Oid element) const {
  int16 length = 0;
  bool by_value = false;
  char align = 0;
  get_typlenbyvalalign(element, &length, &by_value, &align);
  int lower = 1;
  int size = count;
  return PointerGetDatum(
      construct_md_array(values, nulls, count == 0 ? 0 : 1, &size, &lower, element, length, by_value, align));
}

}  // namespace outbox::pg
