#include "emit/json_value.h"

extern "C" {
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/json.h"
}

namespace outbox::emit {

namespace {

// As JSON; of a long string enough to be cut short.
void AppendScalar(const JsonbValue& value, StringInfo out) {
  switch (value.type) {
    case jbvNull:
      return appendStringInfoString(out, "null");
    case jbvBool:
      return appendStringInfoString(out, value.val.boolean ? "true" : "false");
    case jbvNumeric:
      return appendStringInfoString(
          out, DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value.val.numeric))));
    default: {
      const std::string_view text = TextOf(value);
      const int size = pg_mbcliplen(text.data(), static_cast<int>(text.size()), kMostShown + MAX_MULTIBYTE_CHAR_LEN);
      escape_json(out, pnstrdup(text.data(), size));
    }
  }
}

// A fragment of a URI as the text that it stands for.
void AppendFragment(std::string_view fragment, StringInfo out) {
  for (size_t i = 0; i < fragment.size(); i++) {
    if (fragment[i] == '%' && i + 2 < fragment.size() && isxdigit(static_cast<unsigned char>(fragment[i + 1])) != 0 &&
        isxdigit(static_cast<unsigned char>(fragment[i + 2])) != 0) {
      const char hex[] = {fragment[i + 1], fragment[i + 2], '\0'};
      appendStringInfoChar(out, static_cast<char>(strtol(hex, nullptr, 16)));
      i += 2;
    } else {
      appendStringInfoChar(out, fragment[i]);
    }
  }
}

// A name in a JSON pointer as it is.
void AppendName(std::string_view escaped, StringInfo out) {
  for (size_t i = 0; i < escaped.size(); i++) {
    if (escaped[i] == '~' && i + 1 < escaped.size() && (escaped[i + 1] == '0' || escaped[i + 1] == '1')) {
      appendStringInfoChar(out, escaped[++i] == '0' ? '~' : '/');
    } else {
      appendStringInfoChar(out, escaped[i]);
    }
  }
}

// The index of an element, as a JSON pointer has it; -1: it is none.
int64 IndexOf(std::string_view name) {
  if (name.empty() || name.size() > 9 || (name[0] == '0' && name.size() > 1) ||
      name.find_first_not_of("0123456789") != std::string_view::npos) {
    return -1;
  }
  int64 index = 0;
  for (const char digit : name) {
    index = index * 10 + (digit - '0');
  }
  return index;
}

}  // namespace

void RefuseShape() {
  elog(ERROR, "a part of a JSON Schema is not of the type that was checked");
  pg_unreachable();
}

JsonbValue Element(const JsonbValue& array, uint32 index) {
  JsonbValue* element = IsArray(array) ? getIthJsonbValueFromContainer(array.val.binary.data, index) : nullptr;
  if (element == nullptr) {
    RefuseShape();
  }
  const JsonbValue copy = *element;
  pfree(element);
  return copy;
}

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
  Numeric whole = DatumGetNumeric(DirectFunctionCall2(numeric_trunc, NumericGetDatum(number), Int32GetDatum(0)));
  const bool same = CompareNumbers(number, whole) == 0;
  pfree(whole);
  return same;
}

bool IsMultiple(Numeric number, Numeric of) {
  Numeric rest = DatumGetNumeric(DirectFunctionCall2(numeric_mod, NumericGetDatum(number), NumericGetDatum(of)));
  Numeric zero = int64_to_numeric(0);
  const bool none = CompareNumbers(rest, zero) == 0;
  pfree(rest);
  pfree(zero);
  return none;
}

const char* Shown(const JsonbValue& value) {
  StringInfoData out;
  initStringInfo(&out);
  if (!IsObject(value) && !IsArray(value)) {
    AppendScalar(value, &out);
    return CutShort(out.data);
  }
  JsonbIterator* iterator = JsonbIteratorInit(value.val.binary.data);
  JsonbValue item;
  JsonbIteratorToken token;
  bool first = true;  // of its array or object, or behind its name
  while (out.len <= kMostShown && (token = JsonbIteratorNext(&iterator, &item, false)) != WJB_DONE) {
    const bool ends = token == WJB_END_ARRAY || token == WJB_END_OBJECT;
    if (!first && !ends) {
      appendStringInfoString(&out, ", ");
    }
    first = token == WJB_BEGIN_ARRAY || token == WJB_BEGIN_OBJECT || token == WJB_KEY;
    if (token == WJB_BEGIN_ARRAY || token == WJB_END_ARRAY) {
      appendStringInfoChar(&out, ends ? ']' : '[');
    } else if (token == WJB_BEGIN_OBJECT || token == WJB_END_OBJECT) {
      appendStringInfoChar(&out, ends ? '}' : '{');
    } else {
      AppendScalar(item, &out);
      if (token == WJB_KEY) {
        appendStringInfoString(&out, ": ");
      }
    }
  }
  return CutShort(out.data);
}

void AppendPointer(StringInfo out, const Path* path, For whom) {
  if (path == nullptr) {
    return;
  }
  AppendPointer(out, path->above, whom);
  appendStringInfoChar(out, '/');
  if (path->index >= 0) {
    appendStringInfo(out, INT64_FORMAT, path->index);
    return;
  }
  if (path->of_document && whom == For::kLog) {
    appendStringInfoChar(out, '*');
    return;
  }
  const std::string_view name = path->name;
  const int size = static_cast<int>(name.size());
  const int shown = size <= kMostShown ? size : pg_mbcliplen(name.data(), size, kMostShown);
  for (const char c : name.substr(0, static_cast<size_t>(shown))) {
    if (c == '~' || c == '/') {
      appendStringInfoString(out, c == '~' ? "~0" : "~1");
    } else {
      appendStringInfoChar(out, c);
    }
  }
  if (shown < size) {
    appendStringInfoString(out, "...");
  }
}

bool Resolve(const JsonbValue& root, std::string_view reference, JsonbValue* found, const Path** path) {
  *found = root;
  if (!reference.starts_with('#')) {
    return false;
  }
  StringInfoData pointer;
  StringInfoData name;
  initStringInfo(&pointer);
  initStringInfo(&name);
  AppendFragment(reference.substr(1), &pointer);
  std::string_view rest(pointer.data, static_cast<size_t>(pointer.len));
  const Path* at = nullptr;
  bool good = true;
  while (good && !rest.empty()) {
    good = rest[0] == '/';
    rest.remove_prefix(1);
    const size_t end = Min(rest.find('/'), rest.size());
    resetStringInfo(&name);
    AppendName(rest.substr(0, end), &name);
    rest.remove_prefix(end);
    const std::string_view step(name.data, static_cast<size_t>(name.len));
    const int64 index = IsArray(*found) ? IndexOf(step) : -1;
    JsonbValue next;
    if (index >= 0 && index < SizeOf(*found)) {
      *found = Element(*found, static_cast<uint32>(index));
    } else if (IsObject(*found) && Member(*found, step, &next)) {
      *found = next;
    } else {
      good = false;
    }
    if (path != nullptr) {
      auto* here = static_cast<Path*>(palloc(sizeof(Path)));
      *here = Path{at, {pnstrdup(name.data, name.len), step.size()}, index};
      at = here;
    }
  }
  pfree(pointer.data);
  pfree(name.data);
  if (path != nullptr) {
    *path = at;
  }
  return good;
}

}  // namespace outbox::emit
