// Redis' request format [-]: arrays of length-prefixed strings, safe for any byte.
//
// The Put functions write to memory with room enough and return the end of what they wrote.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/release.h"

namespace outbox::sink::resp {

inline constexpr size_t kCountRoom = 24;             // of PutCount
inline constexpr size_t kBulkRoom = kCountRoom + 2;  // of PutBulk, beside the bytes

inline char* PutBytes(std::string_view bytes, char* at) {
  std::memcpy(at, bytes.data(), bytes.size());
  return at + bytes.size();
}
inline char* PutCount(char type, uint64_t count, char* at) {
  *at++ = type;
  at = std::to_chars(at, at + 20, count).ptr;
  return PutBytes("\r\n", at);
}
inline char* PutBulk(std::string_view bytes, char* at) {
  at = PutCount('$', bytes.size(), at);
  if (!bytes.empty()) {
    at = PutBytes(bytes, at);
  }
  return PutBytes("\r\n", at);
}

inline void AppendBulk(std::string_view bytes, std::string* out) {
  const size_t size = out->size();
  out->resize(size + bytes.size() + kBulkRoom);
  out->resize(static_cast<size_t>(PutBulk(bytes, out->data() + size) - out->data()));
}
inline std::string Command(std::initializer_list<std::string_view> arguments) {
  std::string out(kCountRoom, '\0');
  out.resize(static_cast<size_t>(PutCount('*', arguments.size(), out.data()) - out.data()));
  for (std::string_view argument : arguments) {
    AppendBulk(argument, &out);
  }
  return out;
}

// Commands one behind the other, taken from the front. Keeps some memory when it is empty. Where it never is, because
// the way to the server is slow, it is as large as what has not been taken, and not as what was put there since.
class Buffer {
 public:
  // Where at most `room` bytes may be put; then End() with what a Put function returned. What bytes() returned before
  // holds no more.
  char* Begin(size_t room) {
    if (bytes_.size() < end_ + room) {
      MakeRoom(room);
    }
    return bytes_.data() + end_;
  }
  void End(const char* end) { end_ = static_cast<size_t>(end - bytes_.data()); }
  void Append(std::string_view bytes) { End(PutBytes(bytes, Begin(bytes.size()))); }
  void Take(size_t count) {
    begin_ += count;
    if (begin_ == end_) {
      Clear();
    }
  }
  // Memory that one large command needed is given back.
  void Clear() {
    begin_ = end_ = 0;
    if (bytes_.size() > kKept) {
      Release(&bytes_);
    }
  }
  bool empty() const { return begin_ == end_; }
  std::string_view bytes() const { return {bytes_.data() + begin_, end_ - begin_}; }
  // What it takes here.
  size_t held() const { return bytes_.size(); }

 private:
  // What waits is moved to the front once no less was taken from there: each byte costs the same, however many wait.
  // Before, the buffer grows. One that is much too large for what waits is changed for a smaller one.
  void MakeRoom(size_t room) {
    const size_t waiting = end_ - begin_;
    const bool fits = begin_ >= waiting && waiting + room <= bytes_.size();
    const bool much_too_large = bytes_.size() > kKept && bytes_.size() / 4 > waiting + room;
    if (fits && !much_too_large) {
      std::memmove(bytes_.data(), bytes_.data() + begin_, waiting);
    } else {
      const size_t needed = waiting + room + (waiting + room > kKept ? kBehind : 0);
      const size_t size = fits ? std::max(kKept, 2 * needed) : std::max(Grown(bytes_.size()), needed);
      std::vector<char> other(size);
      std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(begin_), waiting, other.begin());
      bytes_.swap(other);
    }
    begin_ = 0;
    end_ = waiting;
  }

  static size_t Grown(size_t size) { return size < kKept ? 2 * size : size + size / 8; }

  static constexpr size_t kKept = size_t{4} << 20;
  // Behind a command of many megabytes come small ones, which need no other buffer.
  static constexpr size_t kBehind = size_t{64} << 10;
  std::vector<char> bytes_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace outbox::sink::resp
