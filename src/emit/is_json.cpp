#include "emit/is_json.h"

extern "C" {
#include "common/jsonapi.h"
#include "mb/pg_wchar.h"
}

namespace outbox::emit {

namespace {

constexpr int kDeepest = 500;  // parsing what is nested deeply raises

// How deeply it is nested, if it is JSON.
int Depth(const char* text, size_t size) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < size; i++) {
    const char c = text[i];
    if (in_string && c == '\\') {
      i++;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      depth += (c == '{' || c == '[') ? 1 : (c == '}' || c == ']') ? -1 : 0;
      deepest = Max(deepest, depth);
    }
  }
  return deepest;
}

bool Parses(const char* text, size_t size, int encoding) {
  if (Depth(text, size) > kDeepest) {
    return false;
  }
  JsonLexContext* lex = nullptr;
#if PG_VERSION_NUM >= 170000
  lex = makeJsonLexContextCstringLen(nullptr, text, size, encoding, false);
#else
  lex = makeJsonLexContextCstringLen(const_cast<char*>(text), static_cast<int>(size), encoding, false);
#endif
  return pg_parse_json(lex, &nullSemAction) == JSON_SUCCESS;
}

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// After blanks, { or [: the first character decides of nearly every string.
bool BeginsLikeJson(const char* text, size_t size) {
  size_t i = 0;
  while (i < size && IsBlank(text[i])) {
    i++;
  }
  return i < size && (text[i] == '{' || text[i] == '[');
}

// Of four digits.
long Code(const char* digits) {
  const char hex[] = {digits[0], digits[1], digits[2], digits[3], '\0'};
  return strtol(hex, nullptr, 16);
}

// What \uXXXX stands for. Beyond ASCII any character is as good as another: it is JSON in a string only.
char Ascii(const char* digits) {
  const long code = Code(digits);
  return code < 0x80 ? static_cast<char>(code) : '?';
}

// Of JSON: whether each \uXXXX, or two of them, stand for a character other than U+0000. PostgreSQL's parser would look
// whether the database's encoding has it, and may raise.
bool EscapesAreCharacters(const char* text, size_t size) {
  const auto surrogate = [&](size_t at, long first) {
    return at + 6 <= size && text[at] == '\\' && text[at + 1] == 'u' && (Code(text + at + 2) & 0xfc00) == first;
  };
  for (size_t i = 0; i < size; i++) {
    if (text[i] != '\\') {
      continue;
    }
    if (text[i + 1] != 'u') {
      i++;
    } else if (surrogate(i, 0xd800) && surrogate(i + 6, 0xdc00)) {
      i += 11;
    } else if (surrogate(i, 0xd800) || surrogate(i, 0xdc00) || Code(text + i + 2) == 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool IsJson(const bytea* payload) {
  return Parses(Bytes(payload), Size(payload), PG_UTF8) && EscapesAreCharacters(Bytes(payload), Size(payload));
}

bool HoldsHugeNumber(const bytea* json) {
  const char* text = Bytes(json);
  const size_t size = Size(json);
  constexpr int kDigits = 10'000;
  bool in_string = false;
  bool exponent = false;
  int digits = 0;
  for (size_t i = 0; i < size; i++) {
    const char c = text[i];
    if (in_string) {
      i += c == '\\' ? 1 : 0;
      in_string = c != '"';
    } else if (c >= '0' && c <= '9') {
      digits += digits > 0 || !exponent || c != '0' ? 1 : 0;
      if (digits > (exponent ? 4 : kDigits)) {
        return true;
      }
    } else {
      exponent = (c == 'e' || c == 'E') && digits > 0 ? true : exponent && (c == '+' || c == '-') && digits == 0;
      digits = 0;
      in_string = c == '"';
    }
  }
  return false;
}

bool HoldsJson(const char* text, size_t size) {
  return BeginsLikeJson(text, size) && Parses(text, size, GetDatabaseEncoding());
}

bool EscapedHoldsJson(const char* text, size_t size) {
  const char* end = text + size;
  const char* at = text;
  while (end - at >= 2 && (IsBlank(*at) || (at[0] == '\\' && (at[1] == 'n' || at[1] == 't' || at[1] == 'r')))) {
    at += IsBlank(*at) ? 1 : 2;
  }
  const char first = end - at >= 6 && at[0] == '\\' && at[1] == 'u' ? Ascii(at + 2) : at < end ? *at : '\0';
  if (first != '{' && first != '[') {  // (blanks spelled as \u.... are what no serializer makes)
    return false;
  }
  auto* plain = static_cast<char*>(palloc(end - at));
  size_t length = 0;
  for (; at < end && *at != '"'; at++) {
    if (*at != '\\' || end - at < 2) {
      plain[length++] = *at;
      continue;
    }
    at++;
    if (*at == 'u' && end - at >= 5) {
      plain[length++] = Ascii(at + 1);
      at += 4;
    } else {
      plain[length++] = *at == 'n'   ? '\n'
                        : *at == 't' ? '\t'
                        : *at == 'r' ? '\r'
                        : *at == 'b' ? '\b'
                        : *at == 'f' ? '\f'
                                     : *at;
    }
  }
  const bool holds = HoldsJson(plain, length);
  pfree(plain);
  return holds;
}

}  // namespace outbox::emit
