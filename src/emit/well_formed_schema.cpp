#include "emit/well_formed_schema.h"

#include "emit/json_value.h"

extern "C" {
#include "catalog/pg_collation.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "regex/regex.h"
}

namespace outbox::emit {

namespace {

[[noreturn]] void RefuseSchema(const Path* path, const char* what) {
  StringInfoData text;
  initStringInfo(&text);
  AppendPointer(&text, path);
  ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid JSON Schema"),
                  errdetail("At #%s: %s.", CutShort(text.data), what),
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
  if ((path != nullptr && path->depth > kDeepest) || stack_is_too_deep()) {
    RefuseSchema(path, psprintf("it has more than %d levels", kDeepest));
  }
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

}  // namespace outbox::emit
