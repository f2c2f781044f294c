#include "emit/json_value.h"

extern "C" {
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
}

namespace outbox::emit {

JsonbValue RootOf(Jsonb* document) {
  JsonbValue value;
  if (JB_ROOT_IS_SCALAR(document)) {
    JsonbExtractScalar(&document->root, &value);
    return value;
  }
  value.type = jbvBinary;
  value.val.binary.data = &document->root;
  value.val.binary.len = static_cast<int>(VARSIZE(document)) - VARHDRSZ;
  return value;
}

int CompareNumbers(Numeric a, Numeric b) {
  return DatumGetInt32(DirectFunctionCall2(numeric_cmp, NumericGetDatum(a), NumericGetDatum(b)));
}

bool IsWhole(Numeric number) {
  const Datum whole = DirectFunctionCall2(numeric_trunc, NumericGetDatum(number), Int32GetDatum(0));
  return CompareNumbers(number, DatumGetNumeric(whole)) == 0;
}

const char* CutShort(const char* text) {
  constexpr int kMost = 60;
  const int size = static_cast<int>(strlen(text));
  return size <= kMost ? text : psprintf("%s...", pnstrdup(text, pg_mbcliplen(text, size, kMost)));
}

const char* Shown(const JsonbValue& value) {
  JsonbValue copy = value;
  return CutShort(JsonbToCString(nullptr, &JsonbValueToJsonb(&copy)->root, 0));
}

void AppendPointer(StringInfo out, const Path* path) {
  if (path == nullptr) {
    return;
  }
  AppendPointer(out, path->above);
  appendStringInfoChar(out, '/');
  if (path->index >= 0) {
    appendStringInfo(out, INT64_FORMAT, path->index);
    return;
  }
  for (const char c : path->name) {
    if (c == '~' || c == '/') {
      appendStringInfoString(out, c == '~' ? "~0" : "~1");
    } else {
      appendStringInfoChar(out, c);
    }
  }
}

bool Resolve(const JsonbValue& root, std::string_view reference, JsonbValue* found) {
  *found = root;
  if (reference.empty() || reference[0] != '#') {
    return false;
  }
  reference.remove_prefix(1);
  while (!reference.empty()) {
    if (reference[0] != '/') {
      return false;
    }
    reference.remove_prefix(1);
    const size_t end = Min(reference.find('/'), reference.size());
    StringInfoData name;
    initStringInfo(&name);
    for (size_t i = 0; i < end; i++) {
      if (reference[i] == '~' && i + 1 < end && (reference[i + 1] == '0' || reference[i + 1] == '1')) {
        appendStringInfoChar(&name, reference[++i] == '0' ? '~' : '/');
      } else if (reference[i] == '%' && i + 2 < end && isxdigit(static_cast<unsigned char>(reference[i + 1])) != 0 &&
                 isxdigit(static_cast<unsigned char>(reference[i + 2])) != 0) {
        const char hex[] = {reference[i + 1], reference[i + 2], '\0'};
        appendStringInfoChar(&name, static_cast<char>(strtol(hex, nullptr, 16)));
        i += 2;
      } else {
        appendStringInfoChar(&name, reference[i]);
      }
    }
    reference.remove_prefix(end);
    JsonbValue next;
    if (IsObject(*found) && Member(*found, {name.data, static_cast<size_t>(name.len)}, &next)) {
      *found = next;
    } else if (IsArray(*found) && name.len > 0 && name.len < 9 &&
               strspn(name.data, "0123456789") == static_cast<size_t>(name.len) &&
               static_cast<uint32>(atoi(name.data)) < SizeOf(*found)) {
      *found = Element(*found, static_cast<uint32>(atoi(name.data)));
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace outbox::emit
