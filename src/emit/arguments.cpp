#include "emit/arguments.h"

extern "C" {
#include "mb/pg_wchar.h"
}

namespace outbox::emit {

text* TextArgument(FunctionCallInfo fcinfo, int index) {
  return PG_ARGISNULL(index) ? nullptr : PG_GETARG_TEXT_PP(index);
}

Jsonb* JsonbArgument(FunctionCallInfo fcinfo, int index) {
  return PG_ARGISNULL(index) ? nullptr : PG_GETARG_JSONB_P(index);
}

void TakeDeliverAt(FunctionCallInfo fcinfo, int index, NewEvent* event) {
  if (!PG_ARGISNULL(index)) {
    event->delayed = true;
    event->deliver_at = PG_GETARG_TIMESTAMPTZ(index);
  }
}

text* KeyArgument(FunctionCallInfo fcinfo, int index, KeyType type) {
  if (PG_ARGISNULL(index)) {
    return nullptr;
  }
  switch (type) {
    case KeyType::kText:
      return PG_GETARG_TEXT_PP(index);
    case KeyType::kBigint: {
      char digits[MAXINT8LEN + 1];
      int size = pg_lltoa(PG_GETARG_INT64(index), digits);
      return cstring_to_text_with_len(digits, size);
    }
    case KeyType::kUuid:
      return cstring_to_text(DatumGetCString(DirectFunctionCall1(uuid_out, PG_GETARG_DATUM(index))));
  }
  pg_unreachable();
}

bytea* JsonbBytes(Jsonb* value) {
  // The varlena header and the text in one buffer; about as long as jsonb's own form (initStringInfo would take 1 kB).
  StringInfoData out;
  int estimate = static_cast<int>(VARSIZE(value)) + 32;
  out.data = static_cast<char*>(palloc(estimate + VARHDRSZ));
  out.maxlen = estimate + VARHDRSZ;
  out.cursor = 0;
  out.len = VARHDRSZ;
  JsonbToCString(&out, &value->root, static_cast<int>(VARSIZE(value)));
  SET_VARSIZE(out.data, out.len);
  return TextBytes(reinterpret_cast<text*>(out.data));
}

bytea* TextBytes(text* value) {
  if (GetDatabaseEncoding() == PG_UTF8) {
    return value;
  }
  int size = static_cast<int>(Size(value));
  char* utf8 = pg_server_to_any(Bytes(value), size, PG_UTF8);
  return utf8 == Bytes(value) ? value : cstring_to_text(utf8);
}

Jsonb* JsonArgToJsonb(const text* value) {
  return value == nullptr ? nullptr
                          : DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(text_to_cstring(value))));
}

}  // namespace outbox::emit
