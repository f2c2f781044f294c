// The search for a record that makes the broker close the connection, because it takes no request of that size, or a
// proxy before it does not [-]. The library sends it again over each new connection, first of all, so nothing goes on.
//
// Where connections are closed in the midst of what is sent over them, again and again, and records of a topic wait
// all that time, the producer ends. Such topics go by the careful one (care.h), which has connections of its own, with
// one record in flight at all: if it goes on like that, it is this record. closings.cpp has the steps, which are
// KafkaSink's. Times are monotonic microseconds.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/monotonic.h"

namespace outbox::sink::kafka {

struct Topic;

// When connections of a producer were closed by a broker in the midst of a request.
class Closings {
 public:
  static constexpr uint32_t kEnough = 4;

  // There were so many by now.
  void Note(uint64_t total, int64_t now) {
    for (; seen_ < total; ++seen_) {
      at_[seen_ % kEnough] = now;
    }
  }
  // The first of the last few, if they are close to each other; -1: no.
  int64_t since(int64_t now) const {
    const int64_t first = at_[seen_ % kEnough];
    return seen_ >= kEnough && now - first < kWithinMicros ? first : -1;
  }
  int64_t last() const { return at_[(seen_ + kEnough - 1) % kEnough]; }

 private:
  static constexpr int64_t kWithinMicros = 60 * kSecond;

  uint64_t seen_ = 0;
  std::array<int64_t, kEnough> at_ = {};
};

struct ClosedSearch {
  struct Suspect {
    uint32_t slot;
    uint32_t index;
    Topic* topic;
    uint64_t bytes;
    int64_t sent_at;
    bool small = false;  // connections are closed while it is alone, and it is too small to be accused
  };
  bool alone = false;              // what goes by the careful producer goes alone
  std::optional<Suspect> suspect;  // what went there last, until its report
  bool found = false;              // the producers end because of it

  // How large the suspect is, where it is a record of this topic that is too small to be accused; else 0.
  uint64_t SmallOf(const Topic& of) const {
    return suspect && suspect->topic == &of && suspect->small ? suspect->bytes : 0;
  }
};

}  // namespace outbox::sink::kafka
