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

// Copies up to the first byte that has to be escaped; there is room for all.
void CopyPlain(StringInfo out, const char** from, const char* end) {
  const char* at = *from;
  char* to = out->data + out->len;
  uint64 word = 0;
  while (end - at >= 8) {
    memcpy(&word, at, 8);
    if (AnyNeedsEscape(word)) {
      break;
    }
    memcpy(to, &word, 8);
    at += 8;
    to += 8;
  }
  if (end - at >= 4 && end - at < 8) {  // two halves that overlap
    const ptrdiff_t second = end - at - 4;
    const uint32 halves[] = {FourBytes(at), FourBytes(at + second)};
    if (!AnyNeedsEscape(halves[0] | static_cast<uint64>(halves[1]) << 32)) {
      memcpy(to, &halves[0], 4);
      memcpy(to + second, &halves[1], 4);
      to += end - at;
      at = end;
    }
  }
  while (at < end && !NeedsEscape(static_cast<unsigned char>(*at))) {
    *to++ = *at++;
  }
  *from = at;
  out->len = static_cast<int>(to - out->data);
}

void AppendString(StringInfo out, const char* at, size_t size) {
  const char* end = at + size;
  MakeRoom(out, size + 2);
  out->data[out->len++] = '"';
  CopyPlain(out, &at, end);
  while (at < end) {
    AppendEscape(out, static_cast<unsigned char>(*at++));
    MakeRoom(out, end - at + 1);
    CopyPlain(out, &at, end);
  }
  out->data[out->len++] = '"';
}

// Numerics are stored in groups of four digits.
constexpr int kGroup = 4;

inline char* PutGroup(char* to, uint32 group) {
  to[0] = static_cast<char>('0' + group / 1000);
  to[1] = static_cast<char>('0' + group / 100 % 10);
  to[2] = static_cast<char>('0' + group / 10 % 10);
  to[3] = static_cast<char>('0' + group % 10);
  return to + kGroup;
}

// Without leading zeros: its last digit, if nothing else.
inline char* PutFirstGroup(char* to, uint32 group) {
  if (group >= 1000) {
    return PutGroup(to, group);
  }
  if (group >= 100) {
    *to++ = static_cast<char>('0' + group / 100);
  }
  if (group >= 10) {
    *to++ = static_cast<char>('0' + group / 10 % 10);
  }
  *to++ = static_cast<char>('0' + group % 10);
  return to;
}

// The form that numbers of moderate size are stored in (numeric.c, "NumericShort"): a header, and groups of four
// digits. Other numbers are left to numeric_out, which would be a quarter of the work of a document with a few of
// these.
bool AppendShortNumeric(StringInfo out, Numeric number) {
  constexpr int kMaxGroups = 5;  // before the point, and behind it
  uint16 header = 0;
  memcpy(&header, VARDATA_ANY(number), sizeof(header));
  if ((header & 0xC000) != 0x8000) {
    return false;
  }
  const bool negative = (header & 0x2000) != 0;
  const int scale = (header & 0x1F80) >> 7;                                    // digits behind the point
  const int weight = (header & 0x003F) - ((header & 0x0040) != 0 ? 0x40 : 0);  // of the first group; 0: ones
  if (weight < -1 || weight >= kMaxGroups || scale > kGroup * kMaxGroups) {
    return false;
  }
  const char* groups = VARDATA_ANY(number) + sizeof(header);
  const int count = static_cast<int>((VARSIZE_ANY_EXHDR(number) - sizeof(header)) / sizeof(int16));
  MakeRoom(out, 2 * kGroup * kMaxGroups + 4);
  char* to = out->data + out->len;
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
  out->len = static_cast<int>(to - out->data);
  return true;
}

void AppendNumeric(StringInfo out, Numeric number) {
  if (!AppendShortNumeric(out, number)) {
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

// Writes the next child; returns it if it is an object or array, which is not written yet.
const JsonbContainer* AppendChild(StringInfo out, Level* level) {
  if (level->object) {
    const JEntry key = level->container->children[level->at];
    const uint32 size = SizeOf(key, level->key_offset);
    AppendString(out, level->data + level->key_offset, size);
    level->key_offset += size;
    AppendWord(out, ": ");
  }
  const JEntry entry = level->container->children[level->object ? level->count + level->at : level->at];
  const uint32 offset = level->value_offset;
  const uint32 size = SizeOf(entry, offset);
  level->value_offset += size;
  level->at++;
  if (JBE_ISSTRING(entry)) {
    AppendString(out, level->data + offset, size);
  } else if (JBE_ISNUMERIC(entry)) {
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
    if (level->at > 0) {
      AppendWord(out, ", ");
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

}  // namespace outbox::emit
