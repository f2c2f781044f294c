#include "emit/json_text.h"

namespace outbox::emit {

namespace {

// An object or array that is being written. Documents may be nested deeper than the stack is: jsonb itself is made
// without recursion by some functions.
struct Level {
  const JsonbContainer* container;
  const char* data;     // of the children, behind their entries
  uint32 at;            // the next child
  uint32 count;         // elements, or pairs
  uint32 key_offset;    // of the next key
  uint32 value_offset;  // of the next element or value
  bool object;
};

constexpr int kLevels = 16;  // before memory is asked for

inline void MakeRoom(StringInfo out, size_t size) {
  if (size >= static_cast<size_t>(out->maxlen - out->len)) {
    enlargeStringInfo(out, static_cast<int>(size));
  }
}

inline void AppendByte(StringInfo out, char byte) {
  MakeRoom(out, 1);
  out->data[out->len++] = byte;
}

template <size_t size>
inline void AppendWord(StringInfo out, const char (&word)[size]) {
  MakeRoom(out, size - 1);
  memcpy(out->data + out->len, word, size - 1);
  out->len += static_cast<int>(size) - 1;
}

inline bool NeedsEscape(unsigned char byte) {
  return byte < 0x20 || byte == '"' || byte == '\\';
}

// Whether one of eight bytes has to be escaped.
inline bool AnyNeedsEscape(uint64 bytes) {
  constexpr uint64 kOnes = UINT64CONST(0x0101010101010101);
  constexpr uint64 kHigh = UINT64CONST(0x8080808080808080);
  const uint64 quote = bytes ^ (kOnes * '"');
  const uint64 backslash = bytes ^ (kOnes * '\\');
  return (((bytes - kOnes * 0x20) | (quote - kOnes) | (backslash - kOnes)) & ~bytes & kHigh) != 0;
}

void AppendEscape(StringInfo out, unsigned char byte) {
  switch (byte) {
    case '\b':
      return AppendWord(out, "\\b");
    case '\f':
      return AppendWord(out, "\\f");
    case '\n':
      return AppendWord(out, "\\n");
    case '\r':
      return AppendWord(out, "\\r");
    case '\t':
      return AppendWord(out, "\\t");
    case '"':
      return AppendWord(out, "\\\"");
    case '\\':
      return AppendWord(out, "\\\\");
    default:
      appendStringInfo(out, "\\u%04x", byte);
  }
}

inline uint32 FourBytes(const char* at) {
  uint32 bytes = 0;
  memcpy(&bytes, at, sizeof(bytes));
  return bytes;
}

// Copies up to the first byte that has to be escaped, or what is left of it in the same word; there is room for all.
// Returns how many bytes.
inline size_t CopyPlain(char* to, const char* from, size_t size) {
  if (size >= 8) {
    uint64 word = 0;
    size_t done = 0;
    for (; done + 8 <= size; done += 8) {
      memcpy(&word, from + done, 8);
      if (AnyNeedsEscape(word)) {
        return done;
      }
      memcpy(to + done, &word, 8);
    }
    memcpy(&word, from + size - 8, 8);  // overlaps what was copied
    if (AnyNeedsEscape(word)) {
      return done;
    }
    memcpy(to + size - 8, &word, 8);
    return size;
  }
  if (size >= 4) {  // two halves that overlap
    const uint32 first = FourBytes(from);
    const uint32 last = FourBytes(from + size - 4);
    if (AnyNeedsEscape(first | static_cast<uint64>(last) << 32)) {
      return 0;
    }
    memcpy(to, &first, 4);
    memcpy(to + size - 4, &last, 4);
    return size;
  }
  for (size_t done = 0; done < size; done++) {
    if (NeedsEscape(static_cast<unsigned char>(from[done]))) {
      return done;
    }
    to[done] = from[done];
  }
  return size;
}

// The rest of a string, from where it may have to be escaped, and the quote behind it. Leaves room for `then` bytes.
void AppendEscaped(StringInfo out, const char* at, size_t size, size_t then) {
  const char* end = at + size;
  while (at < end) {
    MakeRoom(out, end - at);
    char* to = out->data + out->len;
    while (at < end && !NeedsEscape(static_cast<unsigned char>(*at))) {
      *to++ = *at++;
    }
    out->len = static_cast<int>(to - out->data);
    if (at < end) {
      AppendEscape(out, static_cast<unsigned char>(*at++));
    }
  }
  MakeRoom(out, 1 + then);
  out->data[out->len++] = '"';
}

// There is room for the string as it is and its quotes; `then`: for that much behind it there has to be room, too.
inline char* PutString(StringInfo out, char* to, const char* at, size_t size, size_t then) {
  *to++ = '"';
  const size_t plain = CopyPlain(to, at, size);
  to += plain;
  if (plain == size) {
    *to++ = '"';
    return to;
  }
  out->len = static_cast<int>(to - out->data);
  AppendEscaped(out, at + plain, size - plain, then);
  return out->data + out->len;
}

void AppendString(StringInfo out, const char* at, size_t size) {
  MakeRoom(out, size + 2);
  out->len = static_cast<int>(PutString(out, out->data + out->len, at, size, 0) - out->data);
}

// Numerics are stored in groups of four digits.
constexpr int kGroup = 4;

inline char* PutPair(char* to, uint32 number) {
  static constexpr char kPairs[] =
      "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354"
      "555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
  memcpy(to, kPairs + 2 * number, 2);
  return to + 2;
}

inline char* PutGroup(char* to, uint32 group) {
  return PutPair(PutPair(to, group / 100), group % 100);
}

// Without leading zeros: its last digit, if nothing else.
inline char* PutFirstGroup(char* to, uint32 group) {
  if (group >= 1000) {
    return PutGroup(to, group);
  }
  if (group >= 100) {
    *to++ = static_cast<char>('0' + group / 100);
    return PutPair(to, group % 100);
  }
  if (group >= 10) {
    return PutPair(to, group);
  }
  *to++ = static_cast<char>('0' + group);
  return to;
}

// The form that numbers of moderate size are stored in (numeric.c, "NumericShort"): a header, and groups of four
// digits. Other numbers are left to numeric_out, which would be a quarter of the work of a document with a few of
// these.
//
// Writes at most kShortNumeric bytes and returns the end; nullptr: it is another.
constexpr int kMaxGroups = 5;  // before the point, and behind it
constexpr int kShortNumeric = 2 * kGroup * kMaxGroups + 4;

char* PutShortNumeric(char* to, Numeric number) {
  uint16 header = 0;
  memcpy(&header, VARDATA_ANY(number), sizeof(header));
  if ((header & 0xC000) != 0x8000) {
    return nullptr;
  }
  const bool negative = (header & 0x2000) != 0;
  const int scale = (header & 0x1F80) >> 7;                                    // digits behind the point
  const int weight = (header & 0x003F) - ((header & 0x0040) != 0 ? 0x40 : 0);  // of the first group; 0: ones
  if (weight < -1 || weight >= kMaxGroups || scale > kGroup * kMaxGroups) {
    return nullptr;
  }
  const char* groups = VARDATA_ANY(number) + sizeof(header);
  const int count = static_cast<int>((VARSIZE_ANY_EXHDR(number) - sizeof(header)) / sizeof(int16));
  auto group_at = [=](int index) {
    int16 group = 0;
    if (index < count) {
      memcpy(&group, groups + index * sizeof(group), sizeof(group));
    }
    return static_cast<uint32>(group);
  };
  if (negative) {
    *to++ = '-';
  }
  to = PutFirstGroup(to, weight < 0 ? 0 : group_at(0));
  for (int i = 1; i <= weight; i++) {
    to = PutGroup(to, group_at(i));
  }
  if (scale > 0) {
    *to++ = '.';
    char* end = to + scale;
    for (int i = weight + 1; to < end; i++) {
      to = PutGroup(to, group_at(i));
    }
    to = end;
  }
  return to;
}

void AppendNumeric(StringInfo out, Numeric number) {
  MakeRoom(out, kShortNumeric);
  if (char* end = PutShortNumeric(out->data + out->len, number); end != nullptr) {
    out->len = static_cast<int>(end - out->data);
  } else {
    char* digits = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(number)));
    appendStringInfoString(out, digits);
    pfree(digits);
  }
}

// The size of the child with this entry, which begins at `offset`: each entry has a length, some the end instead.
inline uint32 SizeOf(JEntry entry, uint32 offset) {
  return JBE_HAS_OFF(entry) ? JBE_OFFLENFLD(entry) - offset : JBE_OFFLENFLD(entry);
}

void Enter(StringInfo out, Level* level, const JsonbContainer* container) {
  const bool object = JsonContainerIsObject(container);
  const uint32 count = JsonContainerSize(container);
  const uint32 children = object ? 2 * count : count;
  *level = {container, reinterpret_cast<const char*>(&container->children[children]),   0,     count,
            0,         object ? getJsonbOffset(container, static_cast<int>(count)) : 0, object};
  AppendByte(out, object ? '{' : '[');
}

// For a child, beside its strings: a comma, quotes, a colon, a word or a number.
constexpr size_t kChildRoom = 16 + kShortNumeric;

// Writes the next child, with its name and a comma before it; returns it if it is an object or array, which is not
// written yet. Room is made once, for a child in which nothing is escaped.
const JsonbContainer* AppendChild(StringInfo out, Level* level) {
  const JEntry* children = level->container->children;
  const JEntry entry = children[level->object ? level->count + level->at : level->at];
  const JEntry key = level->object ? children[level->at] : 0;
  const char* name = level->data + level->key_offset;
  const uint32 name_size = level->object ? SizeOf(key, level->key_offset) : 0;
  const uint32 offset = level->value_offset;
  const uint32 size = SizeOf(entry, offset);
  const size_t value_room = kChildRoom + (JBE_ISSTRING(entry) ? size : 0);
  MakeRoom(out, name_size + value_room);
  char* to = out->data + out->len;
  if (level->at > 0) {
    *to++ = ',';
    *to++ = ' ';
  }
  if (level->object) {
    to = PutString(out, to, name, name_size, value_room);
    *to++ = ':';
    *to++ = ' ';
  }
  level->key_offset += name_size;
  level->value_offset += size;
  level->at++;
  if (JBE_ISSTRING(entry)) {
    to = PutString(out, to, level->data + offset, size, 0);
    out->len = static_cast<int>(to - out->data);
    return nullptr;
  }
  out->len = static_cast<int>(to - out->data);
  if (JBE_ISNUMERIC(entry)) {
    AppendNumeric(out, reinterpret_cast<Numeric>(const_cast<char*>(level->data + INTALIGN(offset))));
  } else if (JBE_ISNULL(entry)) {
    AppendWord(out, "null");
  } else if (JBE_ISBOOL_TRUE(entry)) {
    AppendWord(out, "true");
  } else if (JBE_ISBOOL_FALSE(entry)) {
    AppendWord(out, "false");
  } else {
    return reinterpret_cast<const JsonbContainer*>(level->data + INTALIGN(offset));
  }
  return nullptr;
}

void AppendNested(StringInfo out, const JsonbContainer* container) {
  Level first[kLevels];
  Level* levels = first;
  int room = kLevels;
  int depth = 0;
  Enter(out, &levels[0], container);
  for (;;) {
    Level* level = &levels[depth];
    if (level->at == level->count) {
      AppendByte(out, level->object ? '}' : ']');
      if (depth-- == 0) {
        break;
      }
      continue;
    }
    const JsonbContainer* nested = AppendChild(out, level);
    if (nested == nullptr) {
      continue;
    }
    if (++depth == room) {
      Level* more = static_cast<Level*>(palloc_extended(2 * room * sizeof(Level), MCXT_ALLOC_HUGE));
      memcpy(more, levels, room * sizeof(Level));
      if (levels != first) {
        pfree(levels);
      }
      levels = more;
      room *= 2;
    }
    Enter(out, &levels[depth], nested);
  }
  if (levels != first) {
    pfree(levels);
  }
}

}  // namespace

void AppendJson(StringInfo out, const Jsonb* document) {
  if (JB_ROOT_IS_SCALAR(document)) {  // stored as an array of one
    Level level = {&document->root, reinterpret_cast<const char*>(&document->root.children[1]), 0, 1, 0, 0, false};
    AppendChild(out, &level);
  } else {
    AppendNested(out, &document->root);
  }
  out->data[out->len] = '\0';
}

void AppendJson(StringInfo out, const JsonbValue* value) {
  switch (value->type) {
    case jbvNull:
      AppendWord(out, "null");
      break;
    case jbvString:
      AppendString(out, value->val.string.val, value->val.string.len);
      break;
    case jbvNumeric:
      AppendNumeric(out, value->val.numeric);
      break;
    case jbvBool:
      value->val.boolean ? AppendWord(out, "true") : AppendWord(out, "false");
      break;
    case jbvBinary:
      AppendNested(out, value->val.binary.data);
      break;
    default:
      elog(ERROR, "unexpected type of a jsonb value: %d", static_cast<int>(value->type));
  }
  out->data[out->len] = '\0';
}

bool SaysJson(const text* content_type) {
  const char* bytes = VARDATA_ANY(content_type);
  const size_t all = VARSIZE_ANY_EXHDR(content_type);
  size_t size = 0;
  while (size < all && bytes[size] != ';') {
    size++;
  }
  while (size > 0 && bytes[size - 1] == ' ') {
    size--;
  }
  constexpr size_t kJson = 4;
  return size > kJson && pg_strncasecmp(bytes + size - kJson, "json", kJson) == 0 &&
         strchr("/+", bytes[size - kJson - 1]) != nullptr;
}

}  // namespace outbox::emit
