#include "sink/redis/reply.h"

#include <charconv>
#include <cstdint>

namespace outbox::sink {
namespace {

// The line that begins at *at, without its type and end; *at moves behind it. False: it is not whole.
bool TakeLine(std::string_view bytes, size_t* at, std::string_view* line) {
  const size_t end = bytes.find('\r', *at);
  if (end == std::string_view::npos || end + 1 >= bytes.size() || bytes[end + 1] != '\n') {
    return false;
  }
  *line = bytes.substr(*at + 1, end - *at - 1);
  *at = end + 2;
  return true;
}

bool ToNumber(std::string_view text, int64_t* number) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), *number);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

int TypeOf(char first) {
  switch (first) {
    case '$':
      return REDIS_REPLY_STRING;
    case ':':
      return REDIS_REPLY_INTEGER;
    case '-':
      return REDIS_REPLY_ERROR;
    case '+':
      return REDIS_REPLY_STATUS;
    default:
      return REDIS_REPLY_ARRAY;
  }
}

bool TakeElement(std::string_view bytes, size_t* at, ReplyView* element) {
  if (*at >= bytes.size()) {
    return false;
  }
  element->type = TypeOf(bytes[*at]);
  if (!TakeLine(bytes, at, &element->text)) {
    return false;
  }
  if (element->type != REDIS_REPLY_STRING) {
    element->text = element->type == REDIS_REPLY_INTEGER ? std::string_view() : element->text;
    return element->type != REDIS_REPLY_ARRAY;
  }
  int64_t size = 0;
  if (!ToNumber(element->text, &size) || size < 0 || bytes.size() - *at < 2 ||
      static_cast<uint64_t>(size) > bytes.size() - *at - 2) {
    return false;
  }
  element->text = bytes.substr(*at, static_cast<size_t>(size));
  *at += static_cast<size_t>(size) + 2;
  return bytes[*at - 2] == '\r' && bytes[*at - 1] == '\n';
}

}  // namespace

size_t ReadElements(std::string_view bytes, std::vector<ReplyView>* elements) {
  elements->clear();
  size_t at = 0;
  std::string_view line;
  int64_t count = 0;
  if (!bytes.starts_with('*') || !TakeLine(bytes, &at, &line) || !ToNumber(line, &count)) {
    return 0;
  }
  for (int64_t i = 0; i < count; ++i) {
    ReplyView element;
    if (!TakeElement(bytes, &at, &element)) {
      return 0;
    }
    elements->push_back(element);
  }
  return count < 0 ? 0 : at;
}

void CopyElements(const redisReply& reply, std::vector<ReplyView>* elements) {
  elements->clear();
  for (size_t i = 0; i < reply.elements; ++i) {
    elements->push_back({reply.element[i]->type, Text(*reply.element[i])});
  }
}

}  // namespace outbox::sink
