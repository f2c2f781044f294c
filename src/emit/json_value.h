// Values of jsonb, as JSON Schema sees them [P]: in the schema and in the document. Plain code.
#pragma once

#include <string_view>

#include "pg/prelude.h"

extern "C" {
#include "utils/jsonb.h"
#include "utils/numeric.h"
}

namespace outbox::emit {

inline std::string_view TextOf(const JsonbValue& value) {
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
  return JsonContainerSize(value.val.binary.data);
}
inline JsonbValue Element(const JsonbValue& array, uint32 index) {
  return *getIthJsonbValueFromContainer(array.val.binary.data, index);
}
inline bool Member(const JsonbValue& object, std::string_view name, JsonbValue* value) {
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

JsonbValue RootOf(Jsonb* document);
int CompareNumbers(Numeric a, Numeric b);
bool IsWhole(Numeric number);
// `text`, at most about 60 bytes of it.
const char* CutShort(const char* text);
// As JSON, cut short.
const char* Shown(const JsonbValue& value);

// Where a value stands: on the stack, from the innermost out; nullptr: the root.
struct Path {
  const Path* above;
  std::string_view name;  // of a member
  int64 index;            // of an element; -1: a member
  int depth = above == nullptr ? 1 : above->depth + 1;
};
// Appends it as a JSON pointer.
void AppendPointer(StringInfo out, const Path* path);

// So many levels a schema may have, and so many steps down into a payload and a schema may be gone at once: what
// Jackson takes by default, a third of what the stack has room for.
inline constexpr int kDeepest = 1000;

// So many schemas may be laid on so many values in one check, a few seconds' work, however few of them are written:
// thirty that refer to the next one twice are a billion.
inline constexpr int64 kMostSteps = 1000000;

// The value in the schema that `#/a/b` points to.
bool Resolve(const JsonbValue& root, std::string_view reference, JsonbValue* found);

}  // namespace outbox::emit
