#include "base/java_properties.h"

namespace outbox {

// Also over a backslash at the end of a line, with which the next one goes on.
void JavaProperties::SkipBlanks() {
  while (at_ != end_) {
    if (Blank()) {
      ++at_;
    } else if (AtContinuation()) {
      SkipContinuation();
    } else {
      return;
    }
  }
}

void JavaProperties::SkipLine() {
  while (at_ != end_ && !LineEnd()) {
    ++at_;
  }
}

bool JavaProperties::AtContinuation() const {
  return *at_ == '\\' && end_ - at_ > 1 && (at_[1] == '\n' || at_[1] == '\r');
}

void JavaProperties::SkipContinuation() {
  at_ += at_[1] == '\r' && end_ - at_ > 2 && at_[2] == '\n' ? 3 : 2;
  while (at_ != end_ && Blank()) {
    ++at_;
  }
}

void JavaProperties::Escape() {
  if (++at_ == end_) {
    return;
  }
  const char c = *at_++;
  if (c != 'u') {
    *scratch_++ = c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c == 'f' ? '\f' : c;
    return;
  }
  unsigned code = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    if (at_ == end_) {
      good_ = false;
      return;
    }
    const char lower = static_cast<char>(*at_ | 0x20);
    if (*at_ >= '0' && *at_ <= '9') {
      code = code << 4 | static_cast<unsigned>(*at_ - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      code = code << 4 | static_cast<unsigned>(lower - 'a' + 10);
    } else {
      good_ = false;
      return;
    }
  }
  good_ = good_ && code > 0 && code < 0x80;
  *scratch_++ = static_cast<char>(code);
}

std::string_view JavaProperties::Part(bool name) {
  const char* start = scratch_;
  while (at_ != end_ && !LineEnd() && !(name && (Blank() || *at_ == '=' || *at_ == ':'))) {
    if (AtContinuation()) {
      SkipContinuation();
    } else if (*at_ == '\\') {
      Escape();
    } else {
      *scratch_++ = *at_++;
    }
  }
  return {start, static_cast<size_t>(scratch_ - start)};
}

bool JavaProperties::Next(std::string_view* name, std::string_view* value) {
  while (true) {
    while (at_ != end_ && (Blank() || LineEnd())) {
      ++at_;
    }
    if (at_ == end_) {
      return false;
    }
    if (*at_ == '#' || *at_ == '!') {
      SkipLine();
      continue;
    }
    good_ = true;
    *name = Part(true);
    SkipBlanks();
    if (at_ != end_ && (*at_ == '=' || *at_ == ':')) {
      ++at_;
      SkipBlanks();
    }
    *value = Part(false);
    if (good_) {
      return true;
    }
  }
}

}  // namespace outbox
