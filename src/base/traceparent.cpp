#include "base/traceparent.h"

#include <cstring>

namespace outbox {

namespace {

constexpr int kLength = 55;

bool LowerHex(const char* text, int length, bool* all_zero) {
  *all_zero = true;
  for (int i = 0; i < length; i++) {
    if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f'))) {
      return false;
    }
    *all_zero = *all_zero && text[i] == '0';
  }
  return true;
}

}  // namespace

bool IsTraceparent(const char* text) {
  bool zero = false;
  if (strlen(text) < kLength || text[2] != '-' || text[35] != '-' || text[52] != '-') {
    return false;
  }
  if (!LowerHex(text, 2, &zero) || strncmp(text, "ff", 2) == 0) {
    return false;
  }
  // Version 00 ends here; a later one may go on, after another dash.
  if (text[kLength] != '\0' && (zero || text[kLength] != '-')) {
    return false;
  }
  if (strlen(text) > 255) {
    return false;
  }
  for (const char* at = text; *at != '\0'; at++) {
    if (*at < 0x21 || *at > 0x7e || *at == '"' || *at == '\\') {
      return false;
    }
  }
  if (!LowerHex(text + 3, 32, &zero) || zero || !LowerHex(text + 36, 16, &zero) || zero) {
    return false;
  }
  return LowerHex(text + 53, 2, &zero);
}

}  // namespace outbox
