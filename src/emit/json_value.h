// Values of jsonb, as JSON Schema sees them [P]: in the schema and in the document. Plain code.
#pragma once

#include <string_view>

#include "pg/encoding.h"
#include "pg/prelude.h"

extern "C" {
#include "utils/jsonb.h"
#include "utils/numeric.h"
}

namespace outbox::emit {

// A schema is checked before it is asserted (well_formed_schema.h), so that each part has the type that its keyword
// wants. What follows looks all the same: a part of another type raises, and reads no memory as what it is not.
[[noreturn]] void RefuseShape();

inline std::string_view TextOf(const JsonbValue& value) {
  if (value.type != jbvString) {
    RefuseShape();
  }
  return {value.val.string.val, static_cast<size_t>(value.val.string.len)};
}

inline bool IsObject(const JsonbValue& value) {
  return value.type == jbvBinary && JsonContainerIsObject(value.val.binary.data);
}
inline bool IsArray(const JsonbValue& value) {
  return value.type == jbvBinary && JsonContainerIsArray(value.val.binary.data);
}
inline bool IsSchema(const JsonbValue& value) {
  return value.type == jbvBool || IsObject(value);
}

// Of an object or array.
inline uint32 SizeOf(const JsonbValue& value) {
  if (!IsArray(value) && !IsObject(value)) {
    RefuseShape();
  }
  return JsonContainerSize(value.val.binary.data);
}
JsonbValue Element(const JsonbValue& array, uint32 index);
inline bool Member(const JsonbValue& object, std::string_view name, JsonbValue* value) {
  if (!IsObject(object)) {
    RefuseShape();
  }
  return getKeyJsonValueFromContainer(object.val.binary.data, name.data(), static_cast<int>(name.size()), value) !=
         nullptr;
}

// Calls visit(name, value) for each member; stops where it returns false. In a frame of its own, as callers recurse.
template <typename Visit>
pg_noinline bool EachMember(const JsonbValue& object, Visit&& visit) {
  if (!IsObject(object)) {
    RefuseShape();
  }
  JsonbIterator* iterator = JsonbIteratorInit(object.val.binary.data);
  JsonbValue item;
  JsonbValue name = {};
  JsonbIteratorToken token = JsonbIteratorNext(&iterator, &item, false);
  while ((token = JsonbIteratorNext(&iterator, &item, true)) != WJB_DONE) {
    if (token == WJB_KEY) {
      name = item;
    } else if (token == WJB_VALUE && !visit(TextOf(name), item)) {
      pfree(iterator);
      return false;
    }
  }
  return true;
}

JsonbValue RootOf(Jsonb* document);
int CompareNumbers(Numeric a, Numeric b);
bool IsWhole(Numeric number);
bool IsMultiple(Numeric number, Numeric of);
// `text`, at most about so many bytes of it.
inline constexpr int kMostShown = 60;
inline const char* CutShort(const char* text, int most = kMostShown) {
  return pg::CutShort(text, most);
}
// As JSON, cut short. Costs as much as what is shown, however large the value is.
const char* Shown(const JsonbValue& value);

// Where a value stands: on the stack, from the innermost out; nullptr: the root.
struct Path {
  const Path* above;
  std::string_view name;     // of a member
  int64 index;               // of an element; -1: a member
  bool of_document = false;  // a name that no keyword of the schema has asked for
  int depth = above == nullptr ? 1 : above->depth + 1;
};
// Appends it as a JSON pointer, with names cut short; `kLog`: with * for what only the document names.
enum class For { kClient, kLog };
void AppendPointer(StringInfo out, const Path* path, For whom);

// So many levels a schema may have, and so many steps down into a payload and a schema may be gone at once: what
// Jackson takes by default, a third of what the stack has room for.
inline constexpr int kDeepest = 1000;

// So many schemas may be laid on so many values in one check, a few seconds' work, however few of them are written:
// thirty that refer to the next one twice are a billion.
inline constexpr int64 kMostSteps = 1000000;

// So many references may follow one another before one leads to what asserts something.
inline constexpr int kMostReferences = 100;

// The value in the schema that `#/a/b` points to; *path: where that is, unless nobody asks.
bool Resolve(const JsonbValue& root, std::string_view reference, JsonbValue* found, const Path** path = nullptr);

}  // namespace outbox::emit
