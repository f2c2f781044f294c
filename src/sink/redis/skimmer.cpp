#include "sink/redis/skimmer.h"

#include <algorithm>
#include <charconv>

namespace outbox::sink {
namespace {

constexpr int64_t kLongestString = 64;  // an id has 41 bytes at most
constexpr size_t kLevels = 2;           // of arrays
constexpr size_t kDeepest = 8;          // hiredis reads no more
constexpr std::string_view kNil = "$-1\r\n";

}  // namespace

size_t Skimmer::Take(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size() && !whole_) {
    if (content_ != 0) {
      const size_t part = std::min<uint64_t>(content_, bytes.size() - at);
      kept_.append(bytes.substr(at, wanted_ ? part : 0));
      at += part;
      content_ -= part;
      if (content_ == 0) {
        EndValue();
      }
      continue;
    }
    const size_t end = bytes.find('\n', at);
    const size_t part = end == std::string_view::npos ? bytes.size() - at : end + 1 - at;
    line_.append(bytes.substr(at, part));
    at += part;
    if (line_.ends_with("\r\n")) {
      HandleLine();
      line_.clear();
    }
  }
  size_ += at;
  return at;
}

bool Skimmer::passes() const {
  return left_.size() > kLevels;
}

void Skimmer::HandleLine() {
  const char type = line_.front();
  if (type == '*' || type == '$') {
    int64_t number = 0;
    const char* end = line_.data() + line_.size() - 2;
    const auto parsed = std::from_chars(line_.data() + 1, end, number);
    if (parsed.ec == std::errc() && parsed.ptr == end) {
      type == '*' ? BeginArray(number) : BeginString(number);
      return;
    }
  }
  kept_.append(passes() ? "" : line_);
  if (type == '+' || type == '-' || type == ':') {
    EndValue();
  } else {
    whole_ = true;
  }
}

void Skimmer::BeginArray(int64_t elements) {
  if (!passes()) {
    kept_.append(left_.size() == kLevels ? kNil : std::string_view(line_));
  }
  if (elements <= 0) {
    EndValue();
    return;
  }
  left_.push_back(static_cast<uint64_t>(elements));
  whole_ = left_.size() > kDeepest;
}

void Skimmer::BeginString(int64_t size) {
  wanted_ = !passes() && size <= kLongestString;
  if (!passes()) {
    kept_.append(wanted_ ? std::string_view(line_) : kNil);
  }
  if (size < 0) {
    EndValue();
  } else {
    content_ = static_cast<uint64_t>(size) + 2;
  }
}

void Skimmer::EndValue() {
  while (!left_.empty() && --left_.back() == 0) {
    left_.pop_back();
  }
  whole_ = left_.empty();
}

}  // namespace outbox::sink
