// Payloads expanded as Debezium's outbox event router does it [-] (table.expand.json.payload): parsed as Jackson does,
// given the types that Connect would find, and written as its JsonConverter writes them, to the byte: of Debezium 3.6,
// Connect 4.3, Jackson 2 and Java 21.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace outbox::format {

// What happens to members of an object that Connect has no type for. The default is Debezium's: they are left out.
struct ExpandRules {
  bool keep_nulls = false;         // table.json.payload.null.behavior = optional_bytes
  bool keep_empty_arrays = false;  // table.json.payload.empty.array.behavior = optional_string
};

// Expands payloads (table.expand.json.payload). Not shared between threads: keeps memory from one to the next.
class JsonExpander {
 public:
  explicit JsonExpander(const ExpandRules& rules) : rules_(rules) {}

  // Appends the object that `text` begins with, as Debezium would publish it, and returns true. False, and nothing
  // appended, where Debezium passes the text on as it is: what does not begin with { or is not JSON, arrays whose
  // elements have different types, and so on; also where Debezium's engine would stop: an array at the top, an integer
  // beyond 64 bits, values of different types under one name of the objects of an array; and what would take much
  // memory: a text, or what it would become, of more than 16 MB, and more than a million values.
  // Two things Debezium does by chance (in the order of a hash table) are settled: objects in an array have all members
  // of all of them, in the order of their first appearance; and nested objects keep theirs, which it may lose.
  bool Expand(std::string_view text, std::string* out);

 private:
  enum class Kind : uint8_t { kNone, kNull, kBool, kString, kInt, kLong, kBig, kDouble, kArray, kObject };
  static constexpr int32_t kNothing = -1;
  // A value of the document, or (in types_) what Connect calls its schema: kNull is that of nulls that are kept.
  struct Node {
    Kind kind = Kind::kNone;
    bool in_members = false;   // of a type: its members are in members_, too
    int32_t first = kNothing;  // element or member; of an array's type: that of its elements
    int32_t next = kNothing;   // of the same array or object
    int32_t last = kNothing;
    int32_t count = 0;
    std::string_view name = {};  // as it is written, without quotes
    std::string_view text = {};  // of a scalar, as it is written
  };

  // Which member of which type.
  struct MemberName {
    int32_t type;
    std::string_view name;
    bool operator==(const MemberName&) const = default;
  };
  struct MemberNameHash {
    size_t operator()(const MemberName& of) const;
  };
  using Names = std::unordered_map<std::string_view, int32_t>;

  // Parsing: the value at at_. kNothing: it is none.
  int32_t Value(int depth);
  int32_t Array(int depth);
  int32_t Object(int depth);
  int32_t Scalar(Kind kind, std::string_view text);
  int32_t Number();
  bool String(std::string_view* written);
  void Space();
  bool Take(char c);
  bool Word(std::string_view word);
  bool Digits();

  // The type of a value. False: Connect has no such type. *type is kNothing if the value is to be left out.
  bool TypeOf(int32_t value, int32_t* type);
  bool TypeOfArray(int32_t value, int32_t* type);
  bool TypeOfElements(int32_t value, int32_t* type);
  int32_t NewType(Kind kind);
  // Adds to `type` what `other` has more.
  bool Merge(int32_t type, int32_t other);

  // Appends a value of that type; false if it is of another.
  bool Write(int32_t value, int32_t type);

  // What the last event left, and its memory if that was much.
  void Forget();

  static void Link(std::vector<Node>* nodes, int32_t parent, int32_t child);
  // A member by its name; kNothing: there is none. Find: among few.
  static int32_t Find(const std::vector<Node>& nodes, int32_t parent, std::string_view name);
  // Among any number, in a time that does not depend on it: most stand where they are expected, a table has the others.
  int32_t FindInType(int32_t type, std::string_view name, int32_t expected);
  int32_t FindInValue(int32_t object, std::string_view name, int32_t expected, Names* names) const;

  const ExpandRules rules_;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  std::vector<Node> values_;
  std::vector<Node> types_;
  std::unordered_map<MemberName, int32_t, MemberNameHash> members_;  // of types that have many
  std::string written_;  // names and scalars; never grows beyond what was reserved
  std::string result_;
};

}  // namespace outbox::format
