#include "emit/arguments.h"

#include "emit/json_text.h"

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
  return PG_ARGISNULL(index) ? nullptr : KeyText(PG_GETARG_DATUM(index), type);
}

text* KeyText(Datum key, KeyType type) {
  switch (type) {
    case KeyType::kText:
      return DatumGetTextPP(key);
    case KeyType::kBigint: {
      char digits[MAXINT8LEN + 1];
      int size = pg_lltoa(DatumGetInt64(key), digits);
      return cstring_to_text_with_len(digits, size);
    }
    case KeyType::kUuid:
      return cstring_to_text(DatumGetCString(DirectFunctionCall1(uuid_out, key)));
  }
  pg_unreachable();
}

namespace {

// Gives what `append` writes a varlena header, in one buffer.
template <typename Append>
text* AppendedText(int estimate, const Append& append) {
  StringInfoData out;
  out.data = static_cast<char*>(palloc(estimate + VARHDRSZ));
  out.maxlen = estimate + VARHDRSZ;
  out.cursor = 0;
  out.len = VARHDRSZ;
  append(&out);
  SET_VARSIZE(out.data, out.len);
  return reinterpret_cast<text*>(out.data);
}

}  // namespace

text* JsonbText(const Jsonb* value) {
  // About as long as jsonb's own form.
  return AppendedText(static_cast<int>(VARSIZE(value)) + 32, [value](StringInfo out) { AppendJson(out, value); });
}

bytea* JsonbBytes(const Jsonb* value) {
  return TextBytes(JsonbText(value));
}

bytea* JsonbBytes(const JsonbValue* value) {
  const int size = value->type == jbvBinary   ? value->val.binary.len
                   : value->type == jbvString ? value->val.string.len
                                              : 0;
  return TextBytes(AppendedText(size + 32, [value](StringInfo out) { AppendJson(out, value); }));
}

bytea* TextBytes(text* value) {
  if (GetDatabaseEncoding() == PG_UTF8) {
    return value;
  }
  int size = static_cast<int>(Size(value));
  char* utf8 = pg_server_to_any(Bytes(value), size, PG_UTF8);
  return utf8 == Bytes(value) ? value : cstring_to_text(utf8);
}

void TakeText(text* body, NewEvent* event) {
  event->payload = TextBytes(body);
  if (event->content_type == nullptr) {
    event->content_type = cstring_to_text("text/plain");
  }
}

void TakeBytes(bytea* body, NewEvent* event) {
  event->payload = body;
  if (event->content_type == nullptr) {
    event->content_type = cstring_to_text("application/octet-stream");
  }
}

int KeepPayloadFromLog() {
  errdetail_log("The client was told more: no part of a payload is in the log.");
  return errhidecontext(true);
}

Jsonb* ReadJsonb(char* json) {
  ErrorContextCallback context;
  context.previous = error_context_stack;
  context.callback = [](void*) {
    if (ERRCODE_TO_CATEGORY(geterrcode()) == ERRCODE_DATA_EXCEPTION) {
      KeepPayloadFromLog();
    }
  };
  context.arg = nullptr;
  error_context_stack = &context;
  Jsonb* value = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(json)));
  error_context_stack = context.previous;
  return value;
}

bool IsOfDocument(int sqlstate) {
  const int category = ERRCODE_TO_CATEGORY(sqlstate);
  // The last is said in SQL_ASCII of an escape beyond ASCII.
  return category == ERRCODE_DATA_EXCEPTION || category == ERRCODE_PROGRAM_LIMIT_EXCEEDED ||
         sqlstate == ERRCODE_FEATURE_NOT_SUPPORTED;
}

Jsonb* JsonArgToJsonb(const text* value) {
  return value == nullptr ? nullptr : ReadJsonb(text_to_cstring(value));
}

}  // namespace outbox::emit
