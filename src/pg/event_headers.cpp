#include "pg/event_headers.h"

#include "pg/encoding.h"

extern "C" {
#include "utils/jsonb.h"
#include "utils/numeric.h"
}

namespace outbox::pg {

namespace {

std::string_view HeaderValue(const JsonbValue& value) {
  switch (value.type) {
    case jbvString:
      return Utf8({value.val.string.val, static_cast<size_t>(value.val.string.len)});
    case jbvNumeric:
      return DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value.val.numeric)));
    case jbvBool:
      return value.val.boolean ? "true" : "false";
    default:
      return {};  // null; emit lets nothing but strings in
  }
}

void Put(char** at, std::string_view bytes) {
  auto size = static_cast<uint32>(bytes.size());
  memcpy(*at, &size, sizeof(size));
  if (size > 0) {
    memcpy(*at + sizeof(size), bytes.data(), size);
  }
  *at += sizeof(size) + size;
}

}  // namespace

// Two walks over the object: its size, then its bytes.
HeaderView CopyHeaders(Datum stored, Arena* arena) {
  Jsonb* object = DatumGetJsonbP(stored);
  HeaderView headers;
  char* out = nullptr;
  char* at = nullptr;
  for (int walk = 0; walk < 2; walk++) {
    size_t size = 0;
    std::string_view name;
    JsonbValue token;
    JsonbIterator* walker = JsonbIteratorInit(&object->root);
    JsonbIteratorToken kind;
    while ((kind = JsonbIteratorNext(&walker, &token, true)) != WJB_DONE) {
      if (kind == WJB_KEY) {
        name = Utf8({token.val.string.val, static_cast<size_t>(token.val.string.len)});
      } else if (kind == WJB_VALUE) {
        std::string_view value = HeaderValue(token);
        if (walk == 0) {
          size += 2 * sizeof(uint32) + name.size() + value.size();
        } else {
          Put(&at, name);
          Put(&at, value);
        }
      }
    }
    if (walk == 0) {
      out = arena->Allocate(size + 1);
      at = out;
      headers.packed = {out, size};
    }
  }
  return headers;
}

}  // namespace outbox::pg
