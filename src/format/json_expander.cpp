#include "format/json_expander.h"

#include <charconv>
#include <cmath>

#include "base/release.h"
#include "format/connect_json.h"

namespace outbox::format {

namespace {

// Jackson's limits (StreamReadConstraints).
constexpr int kDeepest = 1000;
constexpr size_t kLongestNumber = 1000;
// Objects in an array have all members of all of them, so that what is written can grow with the square of what was
// read. What would is passed on as text, and so is an array of objects of which the first has more members already.
constexpr int32_t kMostMembers = 1000;
constexpr size_t kMostBytes = size_t{16} << 20;
// Nor is memory taken without bound for what is read: a value of two bytes takes a node of 56. All of it together is
// below 256 MB. (A payload of the default outbox.max_payload_size cannot have so many.)
constexpr size_t kMostNodes = 1'000'000;  // values and their types
// What is read becomes so many times as long at most: a character of four bytes becomes twelve, 1e6 becomes 1000000.0.
constexpr size_t kGrowth = 4;
// Values whose memory stays for the next event.
constexpr size_t kMostKept = 10'000;       // of what was allocated, until the next text
constexpr size_t kMostTextKept = 1 << 20;  // bytes
// An object with more members than this finds a name by a table.
constexpr int32_t kFewMembers = 16;

bool IsHex(char c, uint32_t* digit) {
  const char lower = static_cast<char>(c | 0x20);
  if (c >= '0' && c <= '9') {
    *digit = static_cast<uint32_t>(c - '0');
  } else if (lower >= 'a' && lower <= 'f') {
    *digit = static_cast<uint32_t>(lower - 'a' + 10);
  } else {
    return false;
  }
  return true;
}

// What from_chars refuses as out of range: whether it is too large, not too small.
bool IsTooLarge(std::string_view number) {
  const size_t e = number.find_first_of("eE");
  const std::string_view mantissa = number.substr(0, e);
  const size_t first = mantissa.find_first_of("123456789");
  if (first == std::string_view::npos) {
    return false;
  }
  const size_t point = mantissa.find('.') == std::string_view::npos ? mantissa.size() : mantissa.find('.');
  const auto scale = static_cast<int64_t>(point) - static_cast<int64_t>(first);
  if (e == std::string_view::npos) {
    return scale > 0;
  }
  std::string_view power = number.substr(e + 1);
  if (power[0] == '+') {
    power.remove_prefix(1);
  }
  int64_t exponent = 0;
  if (std::from_chars(power.data(), power.data() + power.size(), exponent).ec != std::errc()) {
    return power[0] != '-';
  }
  return exponent > -scale;
}

}  // namespace

// --- parsing ---

void JsonExpander::Link(std::vector<Node>* nodes, int32_t parent, int32_t child) {
  Node& node = (*nodes)[static_cast<size_t>(parent)];
  if (node.first == kNothing) {
    node.first = child;
  } else {
    (*nodes)[static_cast<size_t>(node.last)].next = child;
  }
  node.last = child;
  ++node.count;
}

int32_t JsonExpander::Find(const std::vector<Node>& nodes, int32_t parent, std::string_view name) {
  for (int32_t i = nodes[static_cast<size_t>(parent)].first; i != kNothing; i = nodes[static_cast<size_t>(i)].next) {
    if (nodes[static_cast<size_t>(i)].name == name) {
      return i;
    }
  }
  return kNothing;
}

size_t JsonExpander::MemberNameHash::operator()(const MemberName& of) const {
  return std::hash<std::string_view>()(of.name) + static_cast<size_t>(of.type) * 0x9E3779B97F4A7C15;
}

int32_t JsonExpander::FindInType(int32_t type, std::string_view name, int32_t expected) {
  if (expected != kNothing && types_[static_cast<size_t>(expected)].name == name) {
    return expected;
  }
  Node& of = types_[static_cast<size_t>(type)];
  if (of.count <= kFewMembers) {
    return Find(types_, type, name);
  }
  if (!of.in_members) {
    of.in_members = true;
    for (int32_t i = of.first; i != kNothing; i = types_[static_cast<size_t>(i)].next) {
      members_.emplace(MemberName{type, types_[static_cast<size_t>(i)].name}, i);
    }
  }
  const auto found = members_.find({type, name});
  return found == members_.end() ? kNothing : found->second;
}

// `names` is empty at first. Members that have no type stand between those that are expected.
int32_t JsonExpander::FindInValue(int32_t object, std::string_view name, int32_t expected, Names* names) const {
  for (int32_t near = 0; near < kFewMembers && expected != kNothing; ++near) {
    if (values_[static_cast<size_t>(expected)].name == name) {
      return expected;
    }
    expected = values_[static_cast<size_t>(expected)].next;
  }
  const Node& of = values_[static_cast<size_t>(object)];
  if (of.count <= kFewMembers) {
    return Find(values_, object, name);
  }
  if (names->empty()) {
    for (int32_t i = of.first; i != kNothing; i = values_[static_cast<size_t>(i)].next) {
      names->emplace(values_[static_cast<size_t>(i)].name, i);
    }
  }
  const auto found = names->find(name);
  return found == names->end() ? kNothing : found->second;
}

void JsonExpander::Space() {
  while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\n' || *at_ == '\r')) {
    ++at_;
  }
}

bool JsonExpander::Take(char c) {
  if (at_ == end_ || *at_ != c) {
    return false;
  }
  ++at_;
  return true;
}

bool JsonExpander::Word(std::string_view word) {
  if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(word)) {
    return false;
  }
  at_ += word.size();
  return true;
}

bool JsonExpander::Digits() {
  const char* first = at_;
  while (at_ != end_ && *at_ >= '0' && *at_ <= '9') {
    ++at_;
  }
  return at_ != first;
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than kDeepest
int32_t JsonExpander::Value(int depth) {
  Space();
  if (at_ == end_ || values_.size() >= kMostNodes) {
    return kNothing;
  }
  switch (*at_) {
    case '{':
      return Object(depth + 1);
    case '[':
      return Array(depth + 1);
    case '"': {
      std::string_view text;
      return String(&text) ? Scalar(Kind::kString, text) : kNothing;
    }
    case 't':
      return Word("true") ? Scalar(Kind::kBool, "true") : kNothing;
    case 'f':
      return Word("false") ? Scalar(Kind::kBool, "false") : kNothing;
    case 'n':
      return Word("null") ? Scalar(Kind::kNull, "null") : kNothing;
    default:
      return Number();
  }
}

int32_t JsonExpander::Scalar(Kind kind, std::string_view text) {
  values_.push_back({.kind = kind, .text = text});
  return static_cast<int32_t>(values_.size()) - 1;
}

// NOLINTNEXTLINE(misc-no-recursion): see Value
int32_t JsonExpander::Array(int depth) {
  ++at_;
  const int32_t array = Scalar(Kind::kArray, {});
  Space();
  if (depth > kDeepest) {
    return kNothing;
  }
  if (Take(']')) {
    return array;
  }
  while (true) {
    const int32_t element = Value(depth);
    if (element == kNothing) {
      return kNothing;
    }
    Link(&values_, array, element);
    Space();
    if (Take(']')) {
      return array;
    }
    if (!Take(',')) {
      return kNothing;
    }
  }
}

// A name that comes twice has the last value, in the first place.
// NOLINTNEXTLINE(misc-no-recursion): see Value
int32_t JsonExpander::Object(int depth) {
  ++at_;
  const int32_t object = Scalar(Kind::kObject, {});
  Space();
  if (depth > kDeepest) {
    return kNothing;
  }
  if (Take('}')) {
    return object;
  }
  Names known;
  while (true) {
    Space();
    std::string_view name;
    if (at_ == end_ || *at_ != '"' || !String(&name)) {
      return kNothing;
    }
    Space();
    if (!Take(':')) {
      return kNothing;
    }
    const int32_t member = Value(depth);
    if (member == kNothing) {
      return kNothing;
    }
    values_[static_cast<size_t>(member)].name = name;
    int32_t before = kNothing;
    const Node& parent = values_[static_cast<size_t>(object)];
    if (parent.count <= kFewMembers) {
      before = Find(values_, object, name);
    } else {
      if (known.empty()) {
        for (int32_t i = parent.first; i != kNothing; i = values_[static_cast<size_t>(i)].next) {
          known.emplace(values_[static_cast<size_t>(i)].name, i);
        }
      }
      const auto [found, added] = known.emplace(name, member);
      before = added ? kNothing : found->second;
    }
    if (before == kNothing) {
      Link(&values_, object, member);
    } else {
      const int32_t next = values_[static_cast<size_t>(before)].next;
      values_[static_cast<size_t>(before)] = values_[static_cast<size_t>(member)];
      values_[static_cast<size_t>(before)].next = next;
    }
    Space();
    if (Take('}')) {
      return object;
    }
    if (!Take(',')) {
      return kNothing;
    }
  }
}

// A string from its quote on. *written is how Jackson writes it, without quotes.
bool JsonExpander::String(std::string_view* written) {
  const size_t start = written_.size();
  const char* from = ++at_;
  const auto flush = [&] { written_.append(from, static_cast<size_t>(at_ - from)); };
  while (at_ != end_) {
    const auto c = static_cast<unsigned char>(*at_);
    if (IsPlainAscii(c)) {
      ++at_;
      continue;
    }
    flush();
    if (c == '"') {
      ++at_;
      *written = std::string_view(written_).substr(start);
      return true;
    }
    if (c < 0x20) {
      return false;
    }
    if (c != '\\') {
      const std::string_view rest(at_, static_cast<size_t>(end_ - at_));
      const size_t length = AppendCharacter(rest, 0, &written_);
      at_ += length < rest.size() ? length : rest.size();
    } else {
      if (++at_ == end_) {
        return false;
      }
      const char escaped = *at_++;
      switch (escaped) {
        case '"':
        case '\\':
        case '/':
          AppendUnit(static_cast<unsigned char>(escaped), &written_);
          break;
        case 'b':
        case 'f':
        case 'n':
        case 'r':
        case 't':
          written_.push_back('\\');
          written_.push_back(escaped);
          break;
        case 'u': {
          uint32_t unit = 0;
          for (int i = 0; i < 4; ++i) {
            uint32_t digit = 0;
            if (at_ == end_ || !IsHex(*at_++, &digit)) {
              return false;
            }
            unit = unit << 4 | digit;
          }
          AppendUnit(unit, &written_);
          break;
        }
        default:
          return false;
      }
    }
    from = at_;
  }
  return false;
}

int32_t JsonExpander::Number() {
  const char* first = at_;
  Take('-');
  if (!Take('0') && !Digits()) {
    return kNothing;
  }
  bool whole = true;
  if (Take('.')) {
    whole = false;
    if (!Digits()) {
      return kNothing;
    }
  }
  if (Take('e') || Take('E')) {
    whole = false;
    if (!Take('+')) {
      Take('-');
    }
    if (!Digits()) {
      return kNothing;
    }
  }
  const std::string_view text(first, static_cast<size_t>(at_ - first));
  if (text.size() > kLongestNumber) {
    return kNothing;
  }
  const char* end = text.data() + text.size();
  if (whole) {
    int64_t number = 0;
    if (std::from_chars(text.data(), end, number).ec != std::errc()) {
      return Scalar(Kind::kBig, text);
    }
    return Scalar(number >= INT32_MIN && number <= INT32_MAX ? Kind::kInt : Kind::kLong, number == 0 ? "0" : text);
  }
  double number = 0;
  if (std::from_chars(text.data(), end, number).ec == std::errc::result_out_of_range) {
    number = std::copysign(IsTooLarge(text) ? HUGE_VAL : 0.0, text[0] == '-' ? -1.0 : 1.0);
  }
  const size_t start = written_.size();
  AppendJavaDouble(number, &written_);
  return Scalar(Kind::kDouble, std::string_view(written_).substr(start));
}

// --- types ---

int32_t JsonExpander::NewType(Kind kind) {
  types_.push_back({.kind = kind});
  return static_cast<int32_t>(types_.size()) - 1;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
bool JsonExpander::TypeOf(int32_t value, int32_t* type) {
  const Kind kind = values_[static_cast<size_t>(value)].kind;
  *type = kNothing;
  if (values_.size() + types_.size() >= kMostNodes) {
    return false;
  }
  switch (kind) {
    case Kind::kNull:
      *type = rules_.keep_nulls ? NewType(Kind::kNull) : kNothing;
      return true;
    case Kind::kArray:
      return TypeOfArray(value, type);
    case Kind::kObject:
      break;
    default:
      *type = NewType(kind);
      return true;
  }
  const int32_t object = NewType(Kind::kObject);
  for (int32_t i = values_[static_cast<size_t>(value)].first; i != kNothing; i = values_[static_cast<size_t>(i)].next) {
    int32_t member = kNothing;
    if (!TypeOf(i, &member)) {
      return false;
    }
    if (member == kNothing) {
      continue;
    }
    const std::string_view name = values_[static_cast<size_t>(i)].name;
    if (name.empty()) {
      return false;  // no field of a struct has such a name
    }
    types_[static_cast<size_t>(member)].name = name;
    Link(&types_, object, member);
  }
  *type = object;
  return true;
}

// NOLINTNEXTLINE(misc-no-recursion): see TypeOf
bool JsonExpander::TypeOfArray(int32_t value, int32_t* type) {
  int32_t elements = kNothing;
  if (values_[static_cast<size_t>(value)].first == kNothing) {
    if (!rules_.keep_empty_arrays) {
      return true;
    }
    elements = NewType(Kind::kString);
  } else if (!TypeOfElements(value, &elements) || elements == kNothing) {
    return false;
  }
  *type = NewType(Kind::kArray);
  types_[static_cast<size_t>(*type)].first = elements;
  return true;
}

// Of one kind all of them, numbers of one type; nulls among them do not count.
// NOLINTNEXTLINE(misc-no-recursion): see TypeOf
bool JsonExpander::TypeOfElements(int32_t value, int32_t* type) {
  int32_t sample = kNothing;
  const int32_t first = values_[static_cast<size_t>(value)].first;
  const auto of_connect = [](Kind kind) { return kind == Kind::kBig ? Kind::kDouble : kind; };
  for (int32_t i = first; i != kNothing; i = values_[static_cast<size_t>(i)].next) {
    const Kind kind = values_[static_cast<size_t>(i)].kind;
    if (kind == Kind::kNull) {
      continue;
    }
    if (sample == kNothing) {
      sample = i;
    } else if (of_connect(kind) != of_connect(values_[static_cast<size_t>(sample)].kind)) {
      return false;
    }
  }
  if (sample == kNothing) {
    return TypeOf(first, type);
  }
  if (values_[static_cast<size_t>(sample)].kind != Kind::kObject) {
    return TypeOf(sample, type);
  }
  for (int32_t i = first; i != kNothing; i = values_[static_cast<size_t>(i)].next) {
    if (values_[static_cast<size_t>(i)].kind == Kind::kNull) {
      continue;
    }
    int32_t other = kNothing;
    if (!TypeOf(i, &other)) {
      return false;
    }
    if (*type == kNothing) {
      *type = other;
    } else if (!Merge(*type, other)) {
      return false;
    }
  }
  return true;
}

// NOLINTNEXTLINE(misc-no-recursion): see TypeOf
bool JsonExpander::Merge(int32_t type, int32_t other) {
  if (types_[static_cast<size_t>(type)].count > kMostMembers) {
    return false;
  }
  int32_t expected = types_[static_cast<size_t>(type)].first;
  for (int32_t i = types_[static_cast<size_t>(other)].first; i != kNothing;) {
    const int32_t next = types_[static_cast<size_t>(i)].next;
    const int32_t mine = FindInType(type, types_[static_cast<size_t>(i)].name, expected);
    if (mine == kNothing) {
      if (types_[static_cast<size_t>(type)].count >= kMostMembers) {
        return false;
      }
      types_[static_cast<size_t>(i)].next = kNothing;
      Link(&types_, type, i);
      if (types_[static_cast<size_t>(type)].in_members) {
        members_.emplace(MemberName{type, types_[static_cast<size_t>(i)].name}, i);
      }
    } else {
      Node& left = types_[static_cast<size_t>(mine)];
      const Node& right = types_[static_cast<size_t>(i)];
      if (left.kind == Kind::kNull && right.kind != Kind::kNull) {
        const int32_t after = left.next;
        left = right;
        left.next = after;
        left.in_members = false;  // under another number
      } else if (left.kind == Kind::kObject && right.kind == Kind::kObject) {
        if (!Merge(mine, i)) {
          return false;
        }
      } else if (left.kind == Kind::kArray && right.kind == Kind::kArray) {
        const int32_t a = left.first;
        const int32_t b = right.first;
        if (types_[static_cast<size_t>(a)].kind == Kind::kObject &&
            types_[static_cast<size_t>(b)].kind == Kind::kObject && !Merge(a, b)) {
          return false;
        }
      }
      expected = types_[static_cast<size_t>(mine)].next;
    }
    i = next;
  }
  return true;
}

// --- writing ---

// NOLINTNEXTLINE(misc-no-recursion): see TypeOf
bool JsonExpander::Write(int32_t value, int32_t type) {
  const Node& node = values_[static_cast<size_t>(value)];
  const Node& wanted = types_[static_cast<size_t>(type)];
  if (result_.size() > kMostBytes) {
    return false;
  }
  if (node.kind == Kind::kNull) {
    result_.append("null");
    return true;
  }
  if (node.kind != wanted.kind || node.kind == Kind::kBig) {
    return false;
  }
  if (node.kind == Kind::kArray) {
    result_.push_back('[');
    for (int32_t i = node.first; i != kNothing; i = values_[static_cast<size_t>(i)].next) {
      if (i != node.first) {
        result_.push_back(',');
      }
      if (!Write(i, wanted.first)) {
        return false;
      }
    }
    result_.push_back(']');
  } else if (node.kind == Kind::kObject) {
    result_.push_back('{');
    int32_t expected = node.first;
    Names names;
    for (int32_t i = wanted.first; i != kNothing; i = types_[static_cast<size_t>(i)].next) {
      if (i != wanted.first) {
        result_.push_back(',');
      }
      result_.append("\"").append(types_[static_cast<size_t>(i)].name).append("\":");
      const int32_t member = FindInValue(value, types_[static_cast<size_t>(i)].name, expected, &names);
      if (member == kNothing) {
        result_.append("null");
        continue;
      }
      if (!Write(member, i)) {
        return false;
      }
      expected = values_[static_cast<size_t>(member)].next;
    }
    result_.push_back('}');
  } else if (node.kind == Kind::kString) {
    result_.append("\"").append(node.text).append("\"");
  } else {
    result_.append(node.text);
  }
  return true;
}

bool JsonExpander::Expand(std::string_view text, std::string* out) {
  if (text.empty() || text[0] != '{' || text.size() > kMostBytes) {
    return false;
  }
  at_ = text.data();
  end_ = at_ + text.size();
  written_.reserve(kGrowth * text.size());
  // What stands behind the object is not looked at.
  const int32_t document = Value(0);
  int32_t type = kNothing;
  const bool expanded = document != kNothing && TypeOf(document, &type) && Write(document, type);
  if (expanded) {
    out->append(result_);
  }
  Forget();
  return expanded;
}

void JsonExpander::Forget() {
  values_.clear();
  types_.clear();
  if (!members_.empty()) {
    Release(&members_);
  }
  written_.clear();
  result_.clear();
  if (values_.capacity() > kMostKept || types_.capacity() > kMostKept || written_.capacity() > kMostTextKept ||
      result_.capacity() > kMostTextKept) {
    Release(&values_);
    Release(&types_);
    Release(&written_);
    Release(&result_);
  }
}

}  // namespace outbox::format
