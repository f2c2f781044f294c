#include "emit/json_schema.h"

#include "emit/json_value.h"

extern "C" {
#include "catalog/pg_collation.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "regex/regex.h"
}

namespace outbox::emit {

namespace {

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
  const bool found = RE_compile_and_execute(re, const_cast<char*>(string.data()), static_cast<int>(string.size()),
                                            REG_ADVANCED, DEFAULT_COLLATION_OID, 0, nullptr);
  pfree(re);
  return found;
}

class Validator {
 public:
  explicit Validator(const JsonbValue& root) : root_(root) {}

  // `why`: gets the first mismatch; nullptr: nobody asks. One step further down: into the value or into the schema.
  bool Valid(const JsonbValue& schema, const JsonbValue& value, const Path* path, Reason* why) {
    if (reach_ == Reach::kEnd && (depth_ == kDeepest || stack_is_too_deep())) {
      GiveUp(Reach::kTooDeep, DeepText(path));
    }
    if (reach_ != Reach::kEnd) {
      return false;
    }
    const int references = references_;
    references_ = 0;
    depth_++;
    const bool valid = Holds(schema, value, path, why);
    depth_--;
    references_ = references;
    return valid;
  }

  Reach reach() const { return reach_; }
  // Where it was given up, whatever Valid() says then; nullptr: it was not.
  Reason given_up() const { return given_up_; }

 private:
  void GiveUp(Reach reach, Reason where) {
    reach_ = reach;
    given_up_ = where;
  }

  bool Holds(const JsonbValue& schema, const JsonbValue& value, const Path* path, Reason* why) {
    CHECK_FOR_INTERRUPTS();
    if (++steps_ > kMostSteps) {
      GiveUp(Reach::kTooLong, LongText(path));
      return false;
    }
    if (schema.type == jbvBool) {
      return schema.val.boolean || Fail(why, path, [](Show) { return "nothing is allowed here"; });
    }
    return EachMember(schema, [&](std::string_view keyword, const JsonbValue& of) {
      return keyword == "$ref" ? Refer(of, value, path, why) : Keyword(schema, keyword, of, value, path, why);
    });
  }

  static const char* Where(const Path* path, For whom) {
    StringInfoData text;
    initStringInfo(&text);
    AppendPointer(&text, path, whom);
    return text.data;
  }

  Reason DeepText(const Path* path) const {
    auto text = [this, path](For whom) -> const char* {
      return path == nullptr
                 ? psprintf("The check was %d steps deep in the schema, and had not come into the payload.", depth_)
                 : psprintf("At %s, on level %d of the payload, the check was %d steps deep.",
                            CutShort(Where(path, whom)), path->depth, depth_);
    };
    return {text(For::kClient), text(For::kLog)};
  }

  static Reason LongText(const Path* path) {
    auto text = [path](For whom) -> const char* {
      return path == nullptr
                 ? psprintf("After " INT64_FORMAT " steps the check had not come into the payload.", kMostSteps)
                 : psprintf("After " INT64_FORMAT " steps the check was at %s.", kMostSteps,
                            CutShort(Where(path, whom)));
    };
    return {text(For::kClient), text(For::kLog)};
  }

  // Of where it is: whoever mends the payload needs the last step, too, of any that people write.
  static constexpr int kMostOfPlace = 1000;

  // How what is there is called.
  using Show = const char* (*)(const JsonbValue& value);
  static const char* Hidden(const JsonbValue&) { return "what is there"; }

  // Whatever it is about may be large: it is said only where somebody asks.
  template <typename Say>
  pg_noinline static bool Fail(Reason* why, const Path* path, Say&& say) {
    if (why != nullptr) {
      auto text = [path, &say](For whom, Show show) -> const char* {
        return path == nullptr ? psprintf("The payload: %s.", say(show))
                               : psprintf("At %s: %s.", CutShort(Where(path, whom), kMostOfPlace), say(show));
      };
      *why = {text(For::kClient, Shown), text(For::kLog, Hidden)};
    }
    return false;
  }

  // In a frame of its own, which a level has once, while it has one of Holds() for each reference. So are those that go
  // no deeper: the stack has room for kDeepest levels.
  pg_noinline bool Keyword(const JsonbValue& schema, std::string_view keyword, const JsonbValue& of,
                           const JsonbValue& value, const Path* path, Reason* why) {
    if (keyword == "type") {
      return Type(of, value, path, why);
    }
    if (keyword == "const") {
      return Equal(of, value) ||
             Fail(why, path, [&](Show show) { return psprintf("expected %s, not %s", Shown(of), show(value)); });
    }
    if (keyword == "enum") {
      for (uint32 i = 0; i < SizeOf(of); i++) {
        CHECK_FOR_INTERRUPTS();
        if (Equal(Element(of, i), value)) {
          return true;
        }
      }
      return Fail(why, path, [&](Show show) { return psprintf("expected one of %s, not %s", Shown(of), show(value)); });
    }
    if (value.type == jbvNumeric && of.type == jbvNumeric) {
      return Number(keyword, of, value, path, why);
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

  // What it refers to, on this level.
  bool Refer(const JsonbValue& reference, const JsonbValue& value, const Path* path, Reason* why) {
    JsonbValue target;
    if (!Resolve(root_, TextOf(reference), &target)) {
      return Fail(why, path, [](Show) { return "the schema refers to what it has not"; });
    }
    if (references_ > kMostReferences || stack_is_too_deep()) {
      GiveUp(Reach::kTooDeep, DeepText(path));
      return false;
    }
    references_++;
    const bool valid = Holds(target, value, path, why);
    references_--;
    return valid;
  }

  pg_noinline static bool Type(const JsonbValue& of, const JsonbValue& value, const Path* path, Reason* why) {
    if (of.type == jbvString) {
      return IsOfType(value, TextOf(of)) || Fail(why, path, [&](Show show) {
               return psprintf("expected %s, not %s", pnstrdup(of.val.string.val, of.val.string.len), show(value));
             });
    }
    for (uint32 i = 0; i < SizeOf(of); i++) {
      if (IsOfType(value, TextOf(Element(of, i)))) {
        return true;
      }
    }
    return Fail(why, path, [&](Show show) { return psprintf("expected one of %s, not %s", Shown(of), show(value)); });
  }

  pg_noinline static bool Number(std::string_view keyword, const JsonbValue& of, const JsonbValue& value,
                                 const Path* path, Reason* why) {
    const char* expected = nullptr;
    if (keyword == "multipleOf") {
      if (IsMultiple(value.val.numeric, of.val.numeric)) {
        return true;
      }
      expected = "a multiple of";
    } else {
      const int order = CompareNumbers(value.val.numeric, of.val.numeric);
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
    return expected == nullptr || Fail(why, path, [&](Show show) {
             return psprintf("expected %s %s, not %s", expected, Shown(of), show(value));
           });
  }

  // Whether `keyword` limits a count, and it is beyond that.
  static bool Beyond(std::string_view keyword, const char* least, const char* most, const JsonbValue& of, int64 count,
                     const char* what, const Path* path, Reason* why) {
    const bool is_least = keyword == least;
    if ((!is_least && keyword != most) || of.type != jbvNumeric) {
      return false;
    }
    Numeric counted = int64_to_numeric(count);
    const int order = CompareNumbers(counted, of.val.numeric);
    pfree(counted);
    if (is_least ? order >= 0 : order <= 0) {
      return false;
    }
    Fail(why, path, [&](Show) {
      return psprintf("expected %s %s %s, not " INT64_FORMAT, is_least ? "at least" : "at most", Shown(of), what,
                      count);
    });
    return true;
  }

  pg_noinline static bool String(std::string_view keyword, const JsonbValue& of, const JsonbValue& value,
                                 const Path* path, Reason* why) {
    if (keyword == "pattern") {
      return Matches(TextOf(of), TextOf(value)) || Fail(why, path, [&](Show show) {
               return psprintf("expected what matches \"%s\", not %s", pnstrdup(of.val.string.val, of.val.string.len),
                               show(value));
             });
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

  bool Elements(const JsonbValue& of, const JsonbValue& value, uint32 from, const Path* path, Reason* why) {
    for (uint32 i = from; i < SizeOf(value); i++) {
      const Path at = {path, {}, i};
      if (!Valid(of, Element(value, i), &at, why)) {
        return false;
      }
    }
    return true;
  }

  pg_noinline bool Contains(const JsonbValue& schema, const JsonbValue& of, const JsonbValue& value, const Path* path,
                            Reason* why) {
    int64 count = 0;
    for (uint32 i = 0; i < SizeOf(value); i++) {
      count += Valid(of, Element(value, i), path, nullptr) ? 1 : 0;
    }
    JsonbValue least;
    JsonbValue most;
    const bool bounded = Member(schema, "minContains", &least);
    if (!bounded && count == 0) {
      return Fail(why, path, [](Show) { return "expected an element as \"contains\" has it"; });
    }
    constexpr const char* kWhat = "elements as \"contains\" has them";
    return !(bounded && Beyond("minContains", "minContains", "", least, count, kWhat, path, why)) &&
           !(Member(schema, "maxContains", &most) &&
             Beyond("maxContains", "", "maxContains", most, count, kWhat, path, why));
  }

  pg_noinline static bool Unique(const JsonbValue& value, const Path* path, Reason* why) {
    const uint32 count = SizeOf(value);
    auto* elements = static_cast<JsonbValue*>(palloc_extended(sizeof(JsonbValue) * Max(count, 1), MCXT_ALLOC_HUGE));
    for (uint32 i = 0; i < count; i++) {
      elements[i] = Element(value, i);
    }
    qsort(elements, count, sizeof(JsonbValue), Order);
    uint32 i = 1;
    while (i < count && !Equal(elements[i - 1], elements[i])) {
      i++;
    }
    const bool unique = i >= count || Fail(why, path, [&](Show show) {
                          return psprintf("expected unique elements, not %s twice", show(elements[i]));
                        });
    pfree(elements);
    return unique;
  }

  bool Array(const JsonbValue& schema, std::string_view keyword, const JsonbValue& of, const JsonbValue& value,
             const Path* path, Reason* why) {
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
      return Unique(value, path, why);
    }
    return !Beyond(keyword, "minItems", "maxItems", of, SizeOf(value), "elements", path, why);
  }

  // Whether properties or patternProperties of the schema have the member.
  pg_noinline static bool IsNamed(const JsonbValue& schema, std::string_view name) {
    JsonbValue of;
    JsonbValue found;
    if (Member(schema, "properties", &of) && Member(of, name, &found)) {
      return true;
    }
    return Member(schema, "patternProperties", &of) &&
           !EachMember(of, [name](std::string_view pattern, const JsonbValue&) { return !Matches(pattern, name); });
  }

  pg_noinline static bool Requires(const JsonbValue& names, const JsonbValue& value, const Path* path, Reason* why) {
    for (uint32 i = 0; i < SizeOf(names); i++) {
      const JsonbValue name = Element(names, i);
      JsonbValue found;
      if (!Member(value, TextOf(name), &found)) {
        return Fail(why, path, [&](Show) { return psprintf("expected a member %s, and there is none", Shown(name)); });
      }
    }
    return true;
  }

  bool Object(const JsonbValue& schema, std::string_view keyword, const JsonbValue& of, const JsonbValue& value,
              const Path* path, Reason* why) {
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
          const Path at = {path, name, -1, true};
          return !Matches(pattern, name) || Valid(property, member, &at, why);
        });
      });
    }
    if (keyword == "additionalProperties") {
      return EachMember(value, [&](std::string_view name, const JsonbValue& member) {
        const Path at = {path, name, -1, true};
        return IsNamed(schema, name) || Valid(of, member, &at, why);
      });
    }
    if (keyword == "propertyNames") {
      return EachMember(value, [&](std::string_view name, const JsonbValue&) {
        JsonbValue string;
        string.type = jbvString;
        string.val.string.val = const_cast<char*>(name.data());
        string.val.string.len = static_cast<int>(name.size());
        const Path at = {path, name, -1, true};
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
             const Path* path, Reason* why) {
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
      return count == 1 || Fail(why, path, [&](Show show) {
               return psprintf("%s matches %s of the %u schemas of \"%s\"", show(value),
                               count == 0 ? "none" : "more than one", SizeOf(of), one ? "oneOf" : "anyOf");
             });
    }
    if (keyword == "not") {
      return !Valid(of, value, path, nullptr) ||
             Fail(why, path, [&](Show show) { return psprintf("%s is what \"not\" excludes", show(value)); });
    }
    if (keyword == "if") {
      JsonbValue then;
      return !Member(schema, Valid(of, value, path, nullptr) ? "then" : "else", &then) || Valid(then, value, path, why);
    }
    return true;
  }

  JsonbValue root_;
  int depth_ = 0;
  int references_ = 0;  // that led to this one from the schema of this level
  int64 steps_ = 0;
  Reach reach_ = Reach::kEnd;
  Reason given_up_;
};

}  // namespace

Reason Mismatch(Jsonb* schema, Jsonb* document, Reach* reach) {
  const JsonbValue root = RootOf(schema);
  Reason why;
  Validator validator(root);
  const bool valid = validator.Valid(root, RootOf(document), nullptr, &why);
  *reach = validator.reach();
  return *reach != Reach::kEnd ? validator.given_up() : valid ? Reason{} : why;
}

}  // namespace outbox::emit
