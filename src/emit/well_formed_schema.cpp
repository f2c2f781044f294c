#include "emit/well_formed_schema.h"

#include "emit/json_value.h"

extern "C" {
#include "catalog/pg_collation.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "regex/regex.h"
#include "utils/hsearch.h"
}

namespace outbox::emit {

namespace {

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

// Checks a schema, and all that its references lead to: they may point to where no keyword has a schema, and so to what
// is looked at for no other reason.
class Checker {
 public:
  // Of types that have it registered; nullptr: it is about to be.
  Checker(const JsonbValue& root, const text* aggregate_type, const text* event_type)
      : root_(root), aggregate_type_(aggregate_type), event_type_(event_type) {
    HASHCTL parts = {};
    parts.keysize = sizeof(JsonbContainer*);
    parts.entrysize = sizeof(JsonbContainer*);
    parts.hcxt = CurrentMemoryContext;
    seen_ = hash_create("outbox parts of a JSON Schema", 64, &parts, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
  }

  void Check() {
    Part(root_, nullptr);
    for (int i = 0; i < list_length(targets_); i++) {
      const auto* target = static_cast<const Target*>(list_nth(targets_, i));
      Part(target->schema, target->path);
    }
    list_free_deep(targets_);
    hash_destroy(seen_);
  }

 private:
  // Of a reference.
  struct Target {
    JsonbValue schema;
    const Path* path;
  };

  [[noreturn]] void Refuse(const Path* path, const char* what) const {
    StringInfoData text;
    initStringInfo(&text);
    AppendPointer(&text, path, For::kClient);
    if (aggregate_type_ != nullptr) {
      ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                      errmsg("registered JSON Schema of event \"%s\" of \"%s\" is invalid",
                             text_to_cstring(event_type_), text_to_cstring(aggregate_type_)),
                      errdetail("At #%s: %s.", CutShort(text.data), what),
                      errhint("It did not come by outbox.event_schema(). The owner of the extension registers another "
                              "by that, or ends the check by outbox.drop_event_schema().")));
    }
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid JSON Schema"),
                    errdetail("At #%s: %s.", CutShort(text.data), what),
                    errhint("What is asserted is what drafts 6 to 2020-12 of JSON Schema do, but for unevaluatedItems, "
                            "unevaluatedProperties and references to anything outside of the schema.")));
    pg_unreachable();
  }

  void Names(const JsonbValue& names, const Path* path) {
    for (uint32 i = 0; IsArray(names) && i < SizeOf(names); i++) {
      if (Element(names, i).type != jbvString) {
        Refuse(path, "it is no array of strings");
      }
    }
    if (!IsArray(names)) {
      Refuse(path, "it is no array of strings");
    }
  }

  void Type(const JsonbValue& type, const Path* path) {
    for (std::string_view known : {"null", "boolean", "object", "array", "number", "string", "integer"}) {
      if (type.type == jbvString && TextOf(type) == known) {
        return;
      }
    }
    Refuse(path, psprintf("there is no type %s", Shown(type)));
  }

  // The edge of a word to whoever writes JSON Schema, and a character to PostgreSQL, so that the pattern matches next
  // to nothing, and "not" of it all. A schema that came before this was looked at goes on as it did.
  void Edges(std::string_view pattern, const Path* path) {
    for (size_t i = 0; i + 1 < pattern.size(); i++) {
      if (pattern[i] != '\\') {
        continue;
      }
      i++;
      if (pattern[i] == 'b') {
        Refuse(path, "to PostgreSQL \\b is a backspace: \\y is the edge of a word, \\x08 a backspace");
      }
      if (pattern[i] == 'B') {
        Refuse(path, "to PostgreSQL \\B is a backslash: \\Y is where no edge of a word is");
      }
    }
  }

  void Pattern(std::string_view pattern, const Path* path) {
    if (aggregate_type_ == nullptr) {
      Edges(pattern, path);
    }
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
    Refuse(path, psprintf("it is no regular expression that PostgreSQL takes: %s", message));
  }

  void Map(const JsonbValue& map, bool names, bool patterns, const Path* path) {
    if (!IsObject(map)) {
      Refuse(path, "it is no object");
    }
    EachMember(map, [&](std::string_view name, const JsonbValue& part) {
      const Path at = {path, name, -1};
      if (patterns) {
        Pattern(name, &at);
      }
      if (names && IsArray(part)) {
        Names(part, &at);
      } else {
        Part(part, &at);
      }
      return true;
    });
  }

  void Array(const JsonbValue& parts, const Path* path) {
    if (!IsArray(parts)) {
      Refuse(path, "it is no array");
    }
    for (uint32 i = 0; i < SizeOf(parts); i++) {
      const Path at = {path, {}, i};
      Part(Element(parts, i), &at);
    }
  }

  // Also whether references alone lead on from it for too long, as they do where they lead back to it.
  void Reference(JsonbValue reference, const Path* path) {
    for (int steps = 0; reference.type == jbvString; steps++) {
      CHECK_FOR_INTERRUPTS();
      JsonbValue target;
      if (!Resolve(root_, TextOf(reference), &target) || !IsSchema(target)) {
        Refuse(path, psprintf("%s is no schema within this one", Shown(reference)));
      }
      if (steps == 0 && !IsSeen(target, HASH_FIND)) {
        auto* found = static_cast<Target*>(palloc(sizeof(Target)));
        Resolve(root_, TextOf(reference), &found->schema, &found->path);
        targets_ = lappend(targets_, found);
      }
      if (steps == kMostReferences) {
        Refuse(path, psprintf("references lead in a circle, or through more than %d others", kMostReferences));
      }
      if (!IsObject(target) || !Member(target, "$ref", &reference)) {
        return;
      }
    }
    Refuse(path, "it is no string");
  }

  void Keyword(std::string_view keyword, Shape shape, const JsonbValue& of, const Path* path) {
    Numeric zero = int64_to_numeric(0);
    switch (shape) {
      case Shape::kSchema:
        return Part(of, path);
      case Shape::kSchemas:
        return Array(of, path);
      case Shape::kItems:
        return IsArray(of) ? Array(of, path) : Part(of, path);
      case Shape::kMap:
      case Shape::kMapOrNames:
        return Map(of, shape == Shape::kMapOrNames, keyword == "patternProperties", path);
      case Shape::kNumber:
      case Shape::kCount:
        if (of.type != jbvNumeric) {
          Refuse(path, "it is no number");
        }
        if ((shape == Shape::kCount && (!IsWhole(of.val.numeric) || CompareNumbers(of.val.numeric, zero) < 0)) ||
            (keyword == "multipleOf" && CompareNumbers(of.val.numeric, zero) <= 0)) {
          Refuse(path, psprintf("it must not be %s", Shown(of)));
        }
        return;
      case Shape::kNames:
        return Names(of, path);
      case Shape::kPattern:
        if (of.type != jbvString) {
          Refuse(path, "it is no string");
        }
        return Pattern(TextOf(of), path);
      case Shape::kBool:
        if (of.type != jbvBool) {
          Refuse(path, "it is not true or false");
        }
        return;
      case Shape::kArray:
        if (!IsArray(of)) {
          Refuse(path, "it is no array");
        }
        return;
      case Shape::kType:
        if (!IsArray(of)) {
          return Type(of, path);
        }
        if (SizeOf(of) == 0) {
          Refuse(path, "no type is allowed by it");
        }
        for (uint32 i = 0; i < SizeOf(of); i++) {
          Type(Element(of, i), path);
        }
        return;
      case Shape::kReference:
        return Reference(of, path);
      case Shape::kNever:
        Refuse(path, "it is not asserted here");
    }
  }

  void Part(const JsonbValue& schema, const Path* path) {
    if ((path != nullptr && path->depth > kDeepest) || stack_is_too_deep()) {
      Refuse(path, psprintf("it has more than %d levels", kDeepest));
    }
    CHECK_FOR_INTERRUPTS();
    if (!IsSchema(schema)) {
      Refuse(path, "a schema is an object, true or false");
    }
    if (schema.type == jbvBool || IsSeen(schema, HASH_ENTER)) {
      return;
    }
    EachMember(schema, [&](std::string_view keyword, const JsonbValue& of) {
      for (const auto& known : kShapes) {
        if (known.keyword == keyword) {
          const Path at = {path, keyword, -1};
          Keyword(keyword, known.shape, of, &at);
        }
      }
      return true;
    });
  }

  // Whether the part has been checked; HASH_ENTER: it is from now on.
  bool IsSeen(const JsonbValue& part, HASHACTION action) {
    const JsonbContainer* container = part.type == jbvBinary ? part.val.binary.data : nullptr;
    bool found = false;
    hash_search(seen_, &container, action, &found);
    return found;
  }

  JsonbValue root_;
  const text* aggregate_type_;
  const text* event_type_;
  HTAB* seen_;
  List* targets_ = NIL;
};

}  // namespace

void CheckSchema(Jsonb* schema) {
  Checker(RootOf(schema), nullptr, nullptr).Check();
}

void CheckRegisteredSchema(Jsonb* schema, const text* aggregate_type, const text* event_type) {
  Checker(RootOf(schema), aggregate_type, event_type).Check();
}

}  // namespace outbox::emit
