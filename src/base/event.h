// An event as it was read from the log [-], and the chunk that owns its bytes.
//
// NULL is a view whose data() is nullptr; an empty value has a non-null data() and size 0. The arena guarantees that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/uuid.h"

namespace outbox {

inline constexpr bool IsNull(std::string_view view) {
  return view.data() == nullptr;
}

// User headers, packed by the log reader: for each header u32 name length, name, u32 value length, value (host order).
struct HeaderView {
  std::string_view packed;  // data() == nullptr: none

  // Calls fn(name, value) in stored order.
  template <typename Fn>
  void ForEach(Fn&& fn) const {
    const char* at = packed.data();
    const char* end = at + packed.size();
    while (at != nullptr && at < end) {
      std::string_view name = Next(&at);
      std::string_view value = Next(&at);
      fn(name, value);
    }
  }

 private:
  static std::string_view Next(const char** at) {
    uint32_t size = 0;
    __builtin_memcpy(&size, *at, sizeof(size));
    std::string_view view(*at + sizeof(size), size);
    *at += sizeof(size) + size;
    return view;
  }
};

struct Event {
  int64_t created_at = 0;  // Unix microseconds; strictly increasing over the database
  uint64_t xid = 0;        // top-level transaction id
  Uuid id{};
  std::string_view aggregate_type;  // never NULL
  std::string_view aggregate_id;    // NULL: no key, no order
  std::string_view event_type;      // never NULL
  std::string_view payload;         // NULL: tombstone
  std::string_view content_type;    // NULL: JSON
  HeaderView headers;
  std::string_view topic;  // NULL: the route's own template
  int64_t deliver_at = 0;  // Unix microseconds, not before this; 0 or past: at once

  // What the event costs in memory and on the wire, about.
  size_t bytes() const {
    return 96 + aggregate_type.size() + aggregate_id.size() + event_type.size() + payload.size() + content_type.size() +
           headers.packed.size() + topic.size();
  }
};

// Bump allocator for the bytes of one chunk. Memory goes when the chunk goes.
class Arena {
 public:
  Arena() = default;
  Arena(Arena&&) = default;
  Arena& operator=(Arena&&) = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Never returns nullptr; throws bad_alloc.
  char* Allocate(size_t size) {
    if (size > static_cast<size_t>(end_ - at_)) {
      Grow(size);
    }
    char* result = at_;
    at_ += size;
    used_ += size;
    return result;
  }
  // A copy with non-null data(), also of an empty view.
  std::string_view Copy(std::string_view bytes) {
    char* copy = Allocate(bytes.size() + 1);
    if (!bytes.empty()) {
      __builtin_memcpy(copy, bytes.data(), bytes.size());
    }
    copy[bytes.size()] = '\0';
    return {copy, bytes.size()};
  }
  size_t used() const { return used_; }

 private:
  void Grow(size_t size) {
    size_t block = size > next_block_ ? size : next_block_;
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(block));
    at_ = blocks_.back().get();
    end_ = at_ + block;
    next_block_ = next_block_ < kLargestBlock ? next_block_ * 2 : kLargestBlock;
  }
  // The first blocks are small: under a load of single events most chunks hold one or two, and a large block each would
  // go to the operating system and back.
  static constexpr size_t kSmallestBlock = 4 * 1024;
  static constexpr size_t kLargestBlock = 256 * 1024;
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* at_ = nullptr;
  char* end_ = nullptr;
  size_t next_block_ = kSmallestBlock;
  size_t used_ = 0;
};

// A run of events of one window, in created_at order, with their bytes.
struct EventChunk {
  Arena arena;
  std::vector<Event> events;
};

}  // namespace outbox
