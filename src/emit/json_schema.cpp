#include "emit/json_schema.h"

extern "C" {
#include "catalog/pg_collation.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "regex/regex.h"
#include "utils/builtins.h"
#include "utils/numeric.h"
}

#include <string_view>

namespace outbox::emit {

namespace {

std::string_view TextOf(const JsonbValue& value) {
  return {value.val.string.val, static_cast<size_t>(value.val.string.len)};
}

bool IsObject(const JsonbValue& value) {
  return value.type == jbvBinary && JsonContainerIsObject(value.val.binary.data);
}
bool IsArray(const JsonbValue& value) {
  return value.type == jbvBinary && JsonContainerIsArray(value.val.binary.data);
}
bool IsSchema(const JsonbValue& value) {
  return value.type == jbvBool || IsObject(value);
}

uint32 SizeOf(const JsonbValue& value) {
  return JsonContainerSize(value.val.binary.data);
}

JsonbValue Element(const JsonbValue& array, uint32 index) {
  return *getIthJsonbValueFromContainer(array.val.binary.data, index);
}

bool Member(const JsonbValue& object, std::string_view name, JsonbValue* value) {
  return getKeyJsonValueFromContainer(object.val.binary.data, name.data(), static_cast<int>(name.size()), value) !=
         nullptr;
}

// Calls visit(name, value) for each member; stops where it returns false.
template <typename Visit>
bool EachMember(const JsonbValue& object, Visit&& visit) {
  JsonbIterator* iterator = JsonbIteratorInit(object.val.binary.data);
  JsonbValue item;
  JsonbValue name = {};
  JsonbIteratorToken token = JsonbIteratorNext(&iterator, &item, false);
  while ((token = JsonbIteratorNext(&iterator, &item, true)) != WJB_DONE) {
    if (token == WJB_KEY) {
      name = item;
    } else if (token == WJB_VALUE && !visit(TextOf(name), item)) {
      return false;
    }
  }
  return true;
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
  const Datum whole = DirectFunctionCall2(numeric_trunc, NumericGetDatum(number), Int32GetDatum(0));
  return CompareNumbers(number, DatumGetNumeric(whole)) == 0;
}

// An order of values in which equal ones are neighbours; for qsort(), which owns nothing.
int Order(const void* left, const void* right) {
  CHECK_FOR_INTERRUPTS();
  const auto& a = *static_cast<const JsonbValue*>(left);
  const auto& b = *static_cast<const JsonbValue*>(right);
  if (a.type != b.type) {
    return a.type < b.type ? -1 : 1;
  }
  switch (a.type) {
    case jbvNull:
      return 0;
    case jbvBool:
      return a.val.boolean - b.val.boolean;
    case jbvString:
      return TextOf(a).compare(TextOf(b));
    case jbvNumeric:
      return CompareNumbers(a.val.numeric, b.val.numeric);
    default:
      return compareJsonbContainers(a.val.binary.data, b.val.binary.data);
  }
}

bool Equal(const JsonbValue& a, const JsonbValue& b) {
  return Order(&a, &b) == 0;
}

const char* TypeName(const JsonbValue& value) {
  switch (value.type) {
    case jbvNull:
      return "null";
    case jbvBool:
      return "boolean";
    case jbvString:
      return "string";
    case jbvNumeric:
      return "number";
    default:
      return IsObject(value) ? "object" : "array";
  }
}

bool IsOfType(const JsonbValue& value, std::string_view type) {
  return type == TypeName(value) || (type == "integer" && value.type == jbvNumeric && IsWhole(value.val.numeric));
}

bool Matches(std::string_view pattern, std::string_view string) {
  text* re = cstring_to_text_with_len(pattern.data(), static_cast<int>(pattern.size()));
  return RE_compile_and_execute(re, const_cast<char*>(string.data()), static_cast<int>(string.size()), REG_ADVANCED,
                                DEFAULT_COLLATION_OID, 0, nullptr);
}

// As JSON, cut short.
const char* Shown(const JsonbValue& value) {
  constexpr int kMost = 60;
  JsonbValue copy = value;
  Jsonb* document = JsonbValueToJsonb(&copy);
  char* text = JsonbToCString(nullptr, &document->root, 0);
  const int size = static_cast<int>(strlen(text));
  return size <= kMost ? text : psprintf("%s...", pnstrdup(text, pg_mbcliplen(text, size, kMost)));
}

// --- where a value stands ---

struct Path {
  const Path* above;
  std::string_view name;  // of a member
  int64 index;            // of an element; -1: a member
};

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

// The value in the schema that `#/a/b` points to.
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

// --- validating ---

class Validator {
 public:
  explicit Validator(const JsonbValue& root) : root_(root) {}

  // `why`: gets the first mismatch; nullptr: nobody asks.
  bool Valid(const JsonbValue& schema, const JsonbValue& value, const Path* path, const char** why) {
    check_stack_depth();
    CHECK_FOR_INTERRUPTS();
    if (schema.type == jbvBool) {
      return schema.val.boolean || Fail(why, path, "nothing is allowed here");
    }
    return EachMember(schema, [&](std::string_view keyword, const JsonbValue& of) {
      return Keyword(schema, keyword, of, value, path, why);
    });
  }

 private:
  static bool Fail(const char** why, const Path* path, const char* what) {
    if (why != nullptr) {
      StringInfoData text;
      initStringInfo(&text);
      AppendPointer(&text, path);
      *why = path == nullptr ? psprintf("The payload: %s.", what) : psprintf("At %s: %s.", text.data, what);
    }
    return false;
  }

  bool Keyword(const JsonbValue& schema, std::string_view keyword, const JsonbValue& of, const JsonbValue& value,
               const Path* path, const char** why) {
    if (keyword == "$ref") {
      JsonbValue target;
      if (!Resolve(root_, TextOf(of), &target)) {
        return Fail(why, path, "the schema refers to what it has not");
      }
      return Valid(target, value, path, why);
    }
    if (keyword == "type") {
      return Type(of, value, path, why);
    }
    if (keyword == "const") {
      return Equal(of, value) || Fail(why, path, psprintf("expected %s, not %s", Shown(of), Shown(value)));
    }
    if (keyword == "enum") {
      for (uint32 i = 0; i < SizeOf(of); i++) {
        if (Equal(Element(of, i), value)) {
          return true;
        }
      }
      return Fail(why, path, psprintf("expected one of %s, not %s", Shown(of), Shown(value)));
    }
    if (value.type == jbvNumeric && of.type == jbvNumeric) {
      return Number(keyword, of.val.numeric, value, path, why);
    }
    if (value.type == jbvString) {
      if (!String(keyword, of, value, path, why)) {
        return false;
      }
    } else if (IsArray(value)) {
      if (!Array(schema, keyword, of, value, path, why)) {
        return false;
      }
    } else if (IsObject(value)) {
      if (!Object(schema, keyword, of, value, path, why)) {
        return false;
      }
    }
    return Logic(schema, keyword, of, value, path, why);
  }

  static bool Type(const JsonbValue& of, const JsonbValue& value, const Path* path, const char** why) {
    if (of.type == jbvString) {
      return IsOfType(value, TextOf(of)) ||
             Fail(why, path,
                  psprintf("expected %s, not %s", pnstrdup(of.val.string.val, of.val.string.len), Shown(value)));
    }
    for (uint32 i = 0; i < SizeOf(of); i++) {
      if (IsOfType(value, TextOf(Element(of, i)))) {
        return true;
      }
    }
    return Fail(why, path, psprintf("expected one of %s, not %s", Shown(of), Shown(value)));
  }

  static bool Number(std::string_view keyword, Numeric of, const JsonbValue& value, const Path* path,
                     const char** why) {
    const char* expected = nullptr;
    if (keyword == "multipleOf") {
      const Datum rest = DirectFunctionCall2(numeric_mod, NumericGetDatum(value.val.numeric), NumericGetDatum(of));
      if (CompareNumbers(DatumGetNumeric(rest), int64_to_numeric(0)) == 0) {
        return true;
      }
      expected = "a multiple of";
    } else {
      const int order = CompareNumbers(value.val.numeric, of);
      if (keyword == "minimum" && order < 0) {
        expected = "at least";
      } else if (keyword == "maximum" && order > 0) {
        expected = "at most";
      } else if (keyword == "exclusiveMinimum" && order <= 0) {
        expected = "more than";
      } else if (keyword == "exclusiveMaximum" && order >= 0) {
        expected = "less than";
      }
    }
    return expected == nullptr ||
           Fail(why, path,
                psprintf("expected %s %s, not %s", expected,
                         DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(of))), Shown(value)));
  }

  // Whether `keyword` limits a count, and it is beyond that.
  static bool Beyond(std::string_view keyword, const char* least, const char* most, const JsonbValue& of, int64 count,
                     const char* what, const Path* path, const char** why) {
    const bool is_least = keyword == least;
    if ((!is_least && keyword != most) || of.type != jbvNumeric) {
      return false;
    }
    const int order = CompareNumbers(int64_to_numeric(count), of.val.numeric);
    if (is_least ? order >= 0 : order <= 0) {
      return false;
    }
    Fail(why, path,
         psprintf("expected %s %s %s, not " INT64_FORMAT, is_least ? "at least" : "at most",
                  DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(of.val.numeric))), what, count));
    return true;
  }

  static bool String(std::string_view keyword, const JsonbValue& of, const JsonbValue& value, const Path* path,
                     const char** why) {
    if (keyword == "pattern") {
      return Matches(TextOf(of), TextOf(value)) ||
             Fail(why, path,
                  psprintf("expected what matches \"%s\", not %s", pnstrdup(of.val.string.val, of.val.string.len),
                           Shown(value)));
    }
    if (keyword == "minLength" || keyword == "maxLength") {
      const int64 count = pg_mbstrlen_with_len(value.val.string.val, value.val.string.len);
      return !Beyond(keyword, "minLength", "maxLength", of, count, "characters", path, why);
    }
    return true;
  }

  // How many first elements have schemas of their own.
  static uint32 PrefixOf(const JsonbValue& schema) {
    JsonbValue prefix;
    return (Member(schema, "prefixItems", &prefix) || Member(schema, "items", &prefix)) && IsArray(prefix)
               ? SizeOf(prefix)
               : 0;
  }

  bool Elements(const JsonbValue& of, const JsonbValue& value, uint32 from, const Path* path, const char** why) {
    for (uint32 i = from; i < SizeOf(value); i++) {
      const Path at = {path, {}, i};
      if (!Valid(of, Element(value, i), &at, why)) {
        return false;
      }
    }
    return true;
  }

  bool Contains(const JsonbValue& schema, const JsonbValue& of, const JsonbValue& value, const Path* path,
                const char** why) {
    int64 count = 0;
    for (uint32 i = 0; i < SizeOf(value); i++) {
      count += Valid(of, Element(value, i), path, nullptr) ? 1 : 0;
    }
    JsonbValue least;
    JsonbValue most;
    const bool bounded = Member(schema, "minContains", &least);
    if (!bounded && count == 0) {
      return Fail(why, path, "expected an element as \"contains\" has it");
    }
    constexpr const char* kWhat = "elements as \"contains\" has them";
    return !(bounded && Beyond("minContains", "minContains", "", least, count, kWhat, path, why)) &&
           !(Member(schema, "maxContains", &most) &&
             Beyond("maxContains", "", "maxContains", most, count, kWhat, path, why));
  }

  bool Array(const JsonbValue& schema, std::string_view keyword, const JsonbValue& of, const JsonbValue& value,
             const Path* path, const char** why) {
    if (keyword == "prefixItems" || (keyword == "items" && IsArray(of))) {
      for (uint32 i = 0; i < Min(SizeOf(of), SizeOf(value)); i++) {
        const Path at = {path, {}, i};
        if (!Valid(Element(of, i), Element(value, i), &at, why)) {
          return false;
        }
      }
      return true;
    }
    if (keyword == "items") {
      return Elements(of, value, PrefixOf(schema), path, why);
    }
    if (keyword == "additionalItems") {
      const uint32 prefix = PrefixOf(schema);
      return prefix == 0 || Elements(of, value, prefix, path, why);
    }
    if (keyword == "contains") {
      return Contains(schema, of, value, path, why);
    }
    if (keyword == "uniqueItems" && of.type == jbvBool && of.val.boolean) {
      const uint32 count = SizeOf(value);
      auto* elements = static_cast<JsonbValue*>(palloc_extended(sizeof(JsonbValue) * Max(count, 1), MCXT_ALLOC_HUGE));
      for (uint32 i = 0; i < count; i++) {
        elements[i] = Element(value, i);
      }
      qsort(elements, count, sizeof(JsonbValue), Order);
      for (uint32 i = 1; i < count; i++) {
        if (Equal(elements[i - 1], elements[i])) {
          return Fail(why, path, psprintf("expected unique elements, not %s twice", Shown(elements[i])));
        }
      }
      pfree(elements);
      return true;
    }
    return !Beyond(keyword, "minItems", "maxItems", of, SizeOf(value), "elements", path, why);
  }

  // Whether properties or patternProperties of the schema have the member.
  static bool IsNamed(const JsonbValue& schema, std::string_view name) {
    JsonbValue of;
    JsonbValue found;
    if (Member(schema, "properties", &of) && Member(of, name, &found)) {
      return true;
    }
    return Member(schema, "patternProperties", &of) &&
           !EachMember(of, [name](std::string_view pattern, const JsonbValue&) { return !Matches(pattern, name); });
  }

  static bool Requires(const JsonbValue& names, const JsonbValue& value, const Path* path, const char** why) {
    for (uint32 i = 0; i < SizeOf(names); i++) {
      const JsonbValue name = Element(names, i);
      JsonbValue found;
      if (!Member(value, TextOf(name), &found)) {
        return Fail(why, path, psprintf("expected a member %s, and there is none", Shown(name)));
      }
    }
    return true;
  }

  bool Object(const JsonbValue& schema, std::string_view keyword, const JsonbValue& of, const JsonbValue& value,
              const Path* path, const char** why) {
    if (keyword == "required") {
      return Requires(of, value, path, why);
    }
    if (keyword == "properties") {
      return EachMember(of, [&](std::string_view name, const JsonbValue& property) {
        JsonbValue found;
        const Path at = {path, name, -1};
        return !Member(value, name, &found) || Valid(property, found, &at, why);
      });
    }
    if (keyword == "patternProperties") {
      return EachMember(of, [&](std::string_view pattern, const JsonbValue& property) {
        return EachMember(value, [&](std::string_view name, const JsonbValue& member) {
          const Path at = {path, name, -1};
          return !Matches(pattern, name) || Valid(property, member, &at, why);
        });
      });
    }
    if (keyword == "additionalProperties") {
      return EachMember(value, [&](std::string_view name, const JsonbValue& member) {
        const Path at = {path, name, -1};
        return IsNamed(schema, name) || Valid(of, member, &at, why);
      });
    }
    if (keyword == "propertyNames") {
      return EachMember(value, [&](std::string_view name, const JsonbValue&) {
        JsonbValue string;
        string.type = jbvString;
        string.val.string.val = const_cast<char*>(name.data());
        string.val.string.len = static_cast<int>(name.size());
        const Path at = {path, name, -1};
        return Valid(of, string, &at, why);
      });
    }
    if (keyword == "dependentRequired" || keyword == "dependentSchemas" || keyword == "dependencies") {
      return EachMember(of, [&](std::string_view name, const JsonbValue& needs) {
        JsonbValue found;
        return !Member(value, name, &found) ||
               (IsArray(needs) ? Requires(needs, value, path, why) : Valid(needs, value, path, why));
      });
    }
    return !Beyond(keyword, "minProperties", "maxProperties", of, SizeOf(value), "members", path, why);
  }

  bool Logic(const JsonbValue& schema, std::string_view keyword, const JsonbValue& of, const JsonbValue& value,
             const Path* path, const char** why) {
    if (keyword == "allOf") {
      for (uint32 i = 0; i < SizeOf(of); i++) {
        if (!Valid(Element(of, i), value, path, why)) {
          return false;
        }
      }
      return true;
    }
    if (keyword == "anyOf" || keyword == "oneOf") {
      const bool one = keyword == "oneOf";
      uint32 count = 0;
      for (uint32 i = 0; i < SizeOf(of) && (one || count == 0); i++) {
        count += Valid(Element(of, i), value, path, nullptr) ? 1 : 0;
      }
      return count == 1 || Fail(why, path,
                                psprintf("%s matches %s of the %u schemas of \"%s\"", Shown(value),
                                         count == 0 ? "none" : "more than one", SizeOf(of), one ? "oneOf" : "anyOf"));
    }
    if (keyword == "not") {
      return !Valid(of, value, path, nullptr) || Fail(why, path, psprintf("%s is what \"not\" excludes", Shown(value)));
    }
    if (keyword == "if") {
      JsonbValue then;
      return !Member(schema, Valid(of, value, path, nullptr) ? "then" : "else", &then) || Valid(then, value, path, why);
    }
    return true;
  }

  JsonbValue root_;
};

// --- checking a schema ---

[[noreturn]] void RefuseSchema(const Path* path, const char* what) {
  StringInfoData text;
  initStringInfo(&text);
  AppendPointer(&text, path);
  ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid JSON Schema"),
                  errdetail("At #%s: %s.", text.data, what),
                  errhint("What is asserted is what drafts 6 to 2020-12 of JSON Schema do, but for unevaluatedItems, "
                          "unevaluatedProperties and references to anything outside of the schema.")));
  pg_unreachable();
}

enum class Shape {
  kSchema,
  kSchemas,
  kMap,
  kMapOrNames,
  kItems,
  kNumber,
  kCount,
  kNames,
  kPattern,
  kBool,
  kArray,
  kType,
  kReference,
  kNever
};

constexpr struct {
  std::string_view keyword;
  Shape shape;
} kShapes[] = {
    {"$ref", Shape::kReference},
    {"$dynamicRef", Shape::kNever},
    {"$recursiveRef", Shape::kNever},
    {"unevaluatedItems", Shape::kNever},
    {"unevaluatedProperties", Shape::kNever},
    {"type", Shape::kType},
    {"enum", Shape::kArray},
    {"multipleOf", Shape::kNumber},
    {"minimum", Shape::kNumber},
    {"maximum", Shape::kNumber},
    {"exclusiveMinimum", Shape::kNumber},
    {"exclusiveMaximum", Shape::kNumber},
    {"minLength", Shape::kCount},
    {"maxLength", Shape::kCount},
    {"pattern", Shape::kPattern},
    {"items", Shape::kItems},
    {"prefixItems", Shape::kSchemas},
    {"additionalItems", Shape::kSchema},
    {"contains", Shape::kSchema},
    {"minContains", Shape::kCount},
    {"maxContains", Shape::kCount},
    {"minItems", Shape::kCount},
    {"maxItems", Shape::kCount},
    {"uniqueItems", Shape::kBool},
    {"required", Shape::kNames},
    {"properties", Shape::kMap},
    {"patternProperties", Shape::kMap},
    {"additionalProperties", Shape::kSchema},
    {"propertyNames", Shape::kSchema},
    {"dependentRequired", Shape::kMapOrNames},
    {"dependentSchemas", Shape::kMap},
    {"dependencies", Shape::kMapOrNames},
    {"minProperties", Shape::kCount},
    {"maxProperties", Shape::kCount},
    {"allOf", Shape::kSchemas},
    {"anyOf", Shape::kSchemas},
    {"oneOf", Shape::kSchemas},
    {"not", Shape::kSchema},
    {"if", Shape::kSchema},
    {"then", Shape::kSchema},
    {"else", Shape::kSchema},
    {"$defs", Shape::kMap},
    {"definitions", Shape::kMap},
};

void CheckPart(const JsonbValue& root, const JsonbValue& schema, const Path* path);

void CheckNames(const JsonbValue& names, const Path* path) {
  for (uint32 i = 0; IsArray(names) && i < SizeOf(names); i++) {
    if (Element(names, i).type != jbvString) {
      RefuseSchema(path, "it is no array of strings");
    }
  }
  if (!IsArray(names)) {
    RefuseSchema(path, "it is no array of strings");
  }
}

void CheckType(const JsonbValue& type, const Path* path) {
  for (std::string_view known : {"null", "boolean", "object", "array", "number", "string", "integer"}) {
    if (type.type == jbvString && TextOf(type) == known) {
      return;
    }
  }
  RefuseSchema(path, psprintf("there is no type %s", Shown(type)));
}

void CheckPattern(std::string_view pattern, const Path* path) {
  regex_t compiled;
  pg_wchar* wide = static_cast<pg_wchar*>(palloc((pattern.size() + 1) * sizeof(pg_wchar)));
  const int size = pg_mb2wchar_with_len(pattern.data(), wide, static_cast<int>(pattern.size()));
  const int result = pg_regcomp(&compiled, wide, size, REG_ADVANCED, DEFAULT_COLLATION_OID);
  if (result == REG_OKAY) {
    pg_regfree(&compiled);
    return;
  }
  char message[100];
  pg_regerror(result, &compiled, message, sizeof(message));
  RefuseSchema(path, psprintf("it is no regular expression that PostgreSQL takes: %s", message));
}

void CheckMap(const JsonbValue& root, const JsonbValue& map, bool names, bool patterns, const Path* path) {
  if (!IsObject(map)) {
    RefuseSchema(path, "it is no object");
  }
  EachMember(map, [&](std::string_view name, const JsonbValue& part) {
    const Path at = {path, name, -1};
    if (patterns) {
      CheckPattern(name, &at);
    }
    if (names && IsArray(part)) {
      CheckNames(part, &at);
    } else {
      CheckPart(root, part, &at);
    }
    return true;
  });
}

void CheckArray(const JsonbValue& root, const JsonbValue& parts, const Path* path) {
  if (!IsArray(parts)) {
    RefuseSchema(path, "it is no array");
  }
  for (uint32 i = 0; i < SizeOf(parts); i++) {
    const Path at = {path, {}, i};
    CheckPart(root, Element(parts, i), &at);
  }
}

// Whether following references alone leads from it to itself, which would never end.
void CheckReference(const JsonbValue& root, JsonbValue reference, const Path* path) {
  for (int steps = 0; reference.type == jbvString; steps++) {
    JsonbValue target;
    if (!Resolve(root, TextOf(reference), &target) || !IsSchema(target)) {
      RefuseSchema(path, psprintf("%s is no schema within this one", Shown(reference)));
    }
    if (steps > 100) {
      RefuseSchema(path, "references lead in a circle");
    }
    if (!IsObject(target) || !Member(target, "$ref", &reference)) {
      return;
    }
  }
  RefuseSchema(path, "it is no string");
}

void CheckKeyword(const JsonbValue& root, std::string_view keyword, Shape shape, const JsonbValue& of,
                  const Path* path) {
  Numeric zero = int64_to_numeric(0);
  switch (shape) {
    case Shape::kSchema:
      return CheckPart(root, of, path);
    case Shape::kSchemas:
      return CheckArray(root, of, path);
    case Shape::kItems:
      return IsArray(of) ? CheckArray(root, of, path) : CheckPart(root, of, path);
    case Shape::kMap:
    case Shape::kMapOrNames:
      return CheckMap(root, of, shape == Shape::kMapOrNames, keyword == "patternProperties", path);
    case Shape::kNumber:
    case Shape::kCount:
      if (of.type != jbvNumeric) {
        RefuseSchema(path, "it is no number");
      }
      if ((shape == Shape::kCount && (!IsWhole(of.val.numeric) || CompareNumbers(of.val.numeric, zero) < 0)) ||
          (keyword == "multipleOf" && CompareNumbers(of.val.numeric, zero) <= 0)) {
        RefuseSchema(path, psprintf("it must not be %s", Shown(of)));
      }
      return;
    case Shape::kNames:
      return CheckNames(of, path);
    case Shape::kPattern:
      if (of.type != jbvString) {
        RefuseSchema(path, "it is no string");
      }
      return CheckPattern(TextOf(of), path);
    case Shape::kBool:
      if (of.type != jbvBool) {
        RefuseSchema(path, "it is not true or false");
      }
      return;
    case Shape::kArray:
      if (!IsArray(of)) {
        RefuseSchema(path, "it is no array");
      }
      return;
    case Shape::kType:
      if (!IsArray(of)) {
        return CheckType(of, path);
      }
      for (uint32 i = 0; i < SizeOf(of); i++) {
        CheckType(Element(of, i), path);
      }
      return;
    case Shape::kReference:
      return CheckReference(root, of, path);
    case Shape::kNever:
      RefuseSchema(path, "it is not asserted here");
  }
}

void CheckPart(const JsonbValue& root, const JsonbValue& schema, const Path* path) {
  check_stack_depth();
  if (!IsSchema(schema)) {
    RefuseSchema(path, "a schema is an object, true or false");
  }
  if (schema.type == jbvBool) {
    return;
  }
  EachMember(schema, [&](std::string_view keyword, const JsonbValue& of) {
    for (const auto& known : kShapes) {
      if (known.keyword == keyword) {
        const Path at = {path, keyword, -1};
        CheckKeyword(root, keyword, known.shape, of, &at);
      }
    }
    return true;
  });
}

}  // namespace

void CheckSchema(Jsonb* schema) {
  const JsonbValue root = RootOf(schema);
  CheckPart(root, root, nullptr);
}

const char* Mismatch(Jsonb* schema, Jsonb* document) {
  const JsonbValue root = RootOf(schema);
  const char* why = nullptr;
  Validator validator(root);
  return validator.Valid(root, RootOf(document), nullptr, &why) ? nullptr : why;
}

}  // namespace outbox::emit
