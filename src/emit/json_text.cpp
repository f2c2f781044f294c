#include "emit/json_text.h"

#include <algorithm>

#include "emit/check.h"

namespace outbox::emit {

namespace {

// An object or array that is being written. Documents may be nested deeper than the stack is: jsonb itself is made
// without recursion by some functions.
struct Level {
  const JEntry* key;    // of the next child, where it is an object
  const JEntry* value;  // of the next child
  const char* data;     // of the children, behind their entries
  uint32 key_offset;    // of the next key
  uint32 value_offset;  // of the next element or value
  uint32 left;          // elements, or pairs
  bool object;
  bool empty;
};

constexpr int kLevels = 16;  // before memory is asked for

// What is written and may be none of the text: the varlena header, and a comma that is taken back.
constexpr size_t kNoText = VARHDRSZ + 2;

// The end of what is written, with room for so many bytes behind it.
inline char* WithRoom(StringInfo out, char* to, size_t size) {
  if (size >= static_cast<size_t>(out->data + out->maxlen - to)) [[unlikely]] {
    out->len = static_cast<int>(to - out->data);
    CheckPayloadSoFar(std::max(static_cast<size_t>(out->len), kNoText) - kNoText);
    enlargeStringInfo(out, static_cast<int>(size));
    return out->data + out->len;
  }
  return to;
}

template <size_t size>
inline char* PutWord(char* to, const char (&word)[size]) {
  memcpy(to, word, size - 1);
  return to + size - 1;
}

inline bool NeedsEscape(unsigned char byte) {
  return byte < 0x20 || byte == '"' || byte == '\\';
}

// Not zero where one of eight bytes has to be escaped: the high bit of that byte. That of a byte behind it may be set,
// too, for no reason.
inline uint64 Escapes(uint64 bytes) {
  constexpr uint64 kOnes = UINT64CONST(0x0101010101010101);
  constexpr uint64 kHigh = UINT64CONST(0x8080808080808080);
  const uint64 quote = bytes ^ (kOnes * '"');
  const uint64 backslash = bytes ^ (kOnes * '\\');
  return ((bytes - kOnes * 0x20) | (quote - kOnes) | (backslash - kOnes)) & ~bytes & kHigh;
}

inline uint64 EightBytes(const char* at) {
  uint64 bytes = 0;
  memcpy(&bytes, at, sizeof(bytes));
  return bytes;
}

char* PutEscape(char* to, unsigned char byte) {
  switch (byte) {
    case '\b':
      return PutWord(to, "\\b");
    case '\f':
      return PutWord(to, "\\f");
    case '\n':
      return PutWord(to, "\\n");
    case '\r':
      return PutWord(to, "\\r");
    case '\t':
      return PutWord(to, "\\t");
    case '"':
      return PutWord(to, "\\\"");
    case '\\':
      return PutWord(to, "\\\\");
    default:
      return to + pg_sprintf(to, "\\u%04x", byte);
  }
}

// What is left of a string, from where it may have to be escaped. Leaves room for `then` bytes.
char* PutEscaped(StringInfo out, char* to, const char* at, size_t size, size_t then) {
  constexpr size_t kEscape = 8;  // "\u001f" and its terminator
  const char* end = at + size;
  while (at < end) {
    to = WithRoom(out, to, end - at);
    while (at < end && !NeedsEscape(static_cast<unsigned char>(*at))) {
      *to++ = *at++;
    }
    if (at < end) {
      to = PutEscape(WithRoom(out, to, kEscape), static_cast<unsigned char>(*at++));
    }
  }
  return WithRoom(out, to, then);
}

// A string of eight bytes or more, for which there is room as it is, with `then` bytes behind it.
inline char* PutLong(StringInfo out, char* to, const char* at, size_t size, size_t then) {
  const char* last = at + size - 8;
  for (; at < last; at += 8, to += 8) {
    const uint64 word = EightBytes(at);
    if (Escapes(word) != 0) [[unlikely]] {
      return PutEscaped(out, to, at, last + 8 - at, then);
    }
    memcpy(to, &word, 8);
  }
  to -= at - last;  // overlaps what was copied
  const uint64 word = EightBytes(last);
  if (Escapes(word) != 0) [[unlikely]] {
    return PutEscaped(out, to, last, 8, then);
  }
  memcpy(to, &word, 8);
  return to + 8;
}

// A string of less than eight bytes, likewise, by the word that it ends: before it, there is something of its document.
// Writes a word.
inline char* PutShort(StringInfo out, char* to, const char* at, size_t size, size_t then) {
  if (size == 0) {
    return to;
  }
  uint64 word = EightBytes(at + size - 8);
  uint64 escapes = Escapes(word);
  const size_t before = 8 * (8 - size);  // bits
#ifdef WORDS_BIGENDIAN
  word <<= before;
  escapes <<= before;
#else
  word >>= before;
  escapes >>= before;
#endif
  if (escapes != 0) [[unlikely]] {
    return PutEscaped(out, to, at, size, then);
  }
  memcpy(to, &word, 8);
  return to + size;
}

// A string of a document, likewise, without its quotes.
inline char* PutString(StringInfo out, char* to, const char* at, size_t size, size_t then) {
  return size < 8 ? PutShort(out, to, at, size, then) : PutLong(out, to, at, size, then);
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
  if (group < 10) {
    *to = static_cast<char>('0' + group);
    return to + 1;
  }
  if (group < 100) {
    return PutPair(to, group);
  }
  if (group < 1000) {
    *to = static_cast<char>('0' + group / 100);
    return PutPair(to + 1, group % 100);
  }
  return PutGroup(to, group);
}

// The form that numbers of moderate size are stored in (numeric.c, "NumericShort"): a header, and groups of four
// digits. Other numbers are left to numeric_out, which would be a quarter of the work of a document with a few of
// these.
//
// Writes at most kShortNumeric bytes and returns the end; nullptr: it is another.
constexpr int kMaxGroups = 5;  // before the point, and behind it
constexpr int kShortNumeric = 2 * kGroup * kMaxGroups + 4;

inline char* PutShortNumeric(char* to, const char* stored) {
  uint16 header = 0;
  memcpy(&header, stored + VARHDRSZ, sizeof(header));
  if (!VARATT_IS_4B_U(stored) || (header & 0xC000) != 0x8000) {
    return nullptr;
  }
  const int scale = (header & 0x1F80) >> 7;                                    // digits behind the point
  const int weight = (header & 0x003F) - ((header & 0x0040) != 0 ? 0x40 : 0);  // of the first group; 0: ones
  if (weight < -1 || weight >= kMaxGroups || scale > kGroup * kMaxGroups) {
    return nullptr;
  }
  const char* group = stored + VARHDRSZ + sizeof(header);
  const char* end = stored + VARSIZE(stored);
  auto next = [&group, end]() -> uint32 {  // groups of zeros at the end are not stored
    uint16 digits = 0;
    if (group < end) {
      memcpy(&digits, group, sizeof(digits));
      group += sizeof(digits);
    }
    return digits;
  };
  if ((header & 0x2000) != 0) {
    *to++ = '-';
  }
  to = PutFirstGroup(to, weight < 0 ? 0 : next());
  for (int i = 0; i < weight; i++) {
    to = PutGroup(to, next());
  }
  if (scale > 0) {
    *to++ = '.';
    char* last = to + scale;
    while (to < last) {
      to = PutGroup(to, next());
    }
    to = last;
  }
  return to;
}

// As it is stored in a document. Leaves room for `then` bytes.
char* PutAnyNumeric(StringInfo out, char* to, const char* stored, size_t then) {
  auto* number = reinterpret_cast<Numeric>(const_cast<char*>(stored));
  char* digits = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(number)));
  const size_t size = strlen(digits);
  to = WithRoom(out, to, size + then);
  to = std::copy_n(digits, size, to);
  pfree(digits);
  return to;
}

// The size of the child with this entry, which begins at `offset`: each entry has a length, some the end instead.
inline uint32 SizeOf(JEntry entry, uint32 offset) {
  return JBE_HAS_OFF(entry) ? JBE_OFFLENFLD(entry) - offset : JBE_OFFLENFLD(entry);
}

inline Level LevelOf(const JsonbContainer* container) {
  const uint32 count = JsonContainerSize(container);
  if (!JsonContainerIsObject(container)) {
    return {nullptr, container->children, reinterpret_cast<const char*>(container->children + count), 0, 0, count,
            false,   count == 0};
  }
  const JEntry* values = container->children + count;
  return {container->children,
          values,
          reinterpret_cast<const char*>(values + count),
          0,
          getJsonbOffset(container, static_cast<int>(count)),
          count,
          true,
          count == 0};
}

// For a child beside its strings: quotes, a colon, a word or a number, a comma, and the rest of the word that a short
// string is written by. It covers a bracket and a comma, too.
constexpr size_t kChildRoom = 24 + kShortNumeric;

// A scalar, for which there is room, with so much behind it.
pg_attribute_always_inline char* PutScalar(StringInfo out, char* to, JEntry entry, const char* value, size_t size) {
  if (JBE_ISSTRING(entry)) {
    *to++ = '"';
    to = PutString(out, to, value, size, kChildRoom);
    *to = '"';
    return to + 1;
  }
  if (JBE_ISNUMERIC(entry)) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): aligned as the server has it
    const auto* stored = reinterpret_cast<const char*>(INTALIGN(value));
    char* end = PutShortNumeric(to, stored);
    return end != nullptr ? end : PutAnyNumeric(out, to, stored, kChildRoom);
  }
  return JBE_ISNULL(entry) ? PutWord(to, "null") : JBE_ISBOOL_TRUE(entry) ? PutWord(to, "true") : PutWord(to, "false");
}

// Behind each child a comma is written, and taken back behind the last.
void AppendNested(StringInfo out, const JsonbContainer* container) {
  Level first[kLevels];  // those that the current one is in
  Level* levels = first;
  int room = kLevels;
  int depth = 0;
  Level level = LevelOf(container);
  char* to = WithRoom(out, out->data + out->len, kChildRoom);
  *to++ = level.object ? '{' : '[';
  for (;;) {
    if (level.left == 0) {
      to = WithRoom(out, to, kChildRoom);
      to -= level.empty ? 0 : 2;
      *to++ = level.object ? '}' : ']';
      if (depth == 0) {
        break;
      }
      to = PutWord(to, ", ");
      level = levels[--depth];
      continue;
    }
    level.left--;
    const JEntry entry = *level.value++;
    const uint32 offset = level.value_offset;
    const uint32 size = SizeOf(entry, offset);
    const size_t value_room = kChildRoom + (JBE_ISSTRING(entry) ? size : 0);
    level.value_offset += size;
    if (level.object) {
      const uint32 key_size = SizeOf(*level.key++, level.key_offset);
      to = WithRoom(out, to, key_size + value_room);
      *to++ = '"';
      to = PutString(out, to, level.data + level.key_offset, key_size, value_room);
      to = PutWord(to, "\": ");
      level.key_offset += key_size;
    } else {
      to = WithRoom(out, to, value_room);
    }
    if (!JBE_ISCONTAINER(entry)) {
      to = PutWord(PutScalar(out, to, entry, level.data + offset, size), ", ");
      continue;
    }
    if (depth == room) {
      Level* more = static_cast<Level*>(palloc_extended(2 * room * sizeof(Level), MCXT_ALLOC_HUGE));
      memcpy(more, levels, room * sizeof(Level));
      if (levels != first) {
        pfree(levels);
      }
      levels = more;
      room *= 2;
    }
    levels[depth++] = level;
    level = LevelOf(reinterpret_cast<const JsonbContainer*>(level.data + INTALIGN(offset)));
    *to++ = level.object ? '{' : '[';
  }
  out->len = static_cast<int>(to - out->data);
  if (levels != first) {
    pfree(levels);
  }
}

// Of any place: nothing is known of what is before a string.
char* PutValue(StringInfo out, char* to, const JsonbValue* value) {
  switch (value->type) {
    case jbvNull:
      return PutWord(to, "null");
    case jbvString: {
      const auto size = static_cast<size_t>(value->val.string.len);
      to = WithRoom(out, to, size + 2);
      *to++ = '"';
      to = size < 8 ? PutEscaped(out, to, value->val.string.val, size, 2)
                    : PutLong(out, to, value->val.string.val, size, 2);
      return PutWord(to, "\"");
    }
    case jbvNumeric:
      return PutAnyNumeric(out, to, reinterpret_cast<const char*>(value->val.numeric), 0);
    case jbvBool:
      return value->val.boolean ? PutWord(to, "true") : PutWord(to, "false");
    default:
      elog(ERROR, "unexpected type of a jsonb value: %d", static_cast<int>(value->type));
  }
}

}  // namespace

void AppendJson(StringInfo out, const Jsonb* document) {
  if (JB_ROOT_IS_SCALAR(document)) {  // stored as an array of one
    const JEntry entry = document->root.children[0];
    const uint32 size = SizeOf(entry, 0);
    char* to = WithRoom(out, out->data + out->len, kChildRoom + size);
    to = PutScalar(out, to, entry, reinterpret_cast<const char*>(&document->root.children[1]), size);
    out->len = static_cast<int>(to - out->data);
  } else {
    AppendNested(out, &document->root);
  }
  out->data[out->len] = '\0';
}

void AppendJson(StringInfo out, const JsonbValue* value) {
  if (value->type == jbvBinary) {
    AppendNested(out, value->val.binary.data);
  } else {
    char* to = PutValue(out, WithRoom(out, out->data + out->len, kChildRoom), value);
    out->len = static_cast<int>(to - out->data);
  }
  out->data[out->len] = '\0';
}

}  // namespace outbox::emit
