#include "emit/is_json.h"

extern "C" {
#include "common/jsonapi.h"
#include "mb/pg_wchar.h"
}

namespace outbox::emit {

namespace {

// How deeply it is nested, if it is JSON.
int Depth(const bytea* payload) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < Size(payload); i++) {
    const char c = Bytes(payload)[i];
    if (in_string && c == '\\') {
      i++;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      depth += (c == '{' || c == '[') ? 1 : (c == '}' || c == ']') ? -1 : 0;
      deepest = Max(deepest, depth);
    }
  }
  return deepest;
}

}  // namespace

bool IsJson(const bytea* payload) {
  constexpr int kDeepest = 500;  // parsing what is nested deeply raises
  if (GetDatabaseEncoding() != PG_UTF8 || Depth(payload) > kDeepest) {
    return false;
  }
  JsonLexContext* lex = nullptr;
#if PG_VERSION_NUM >= 170000
  lex = makeJsonLexContextCstringLen(nullptr, Bytes(payload), Size(payload), PG_UTF8, true);
#else
  lex = makeJsonLexContextCstringLen(const_cast<char*>(Bytes(payload)), static_cast<int>(Size(payload)), PG_UTF8, true);
#endif
  return pg_parse_json(lex, &nullSemAction) == JSON_SUCCESS;
}

}  // namespace outbox::emit
