// Where the waiting rows of a key begin [-], for keys of one lane: those with many, and others as far as there is room.
//
// The rows of a key go from the front, so what has gone lies before all that is left, in the index as well. While some
// transaction holds a snapshot that can see them, no vacuum may take these entries away, and each search from the
// beginning of the key passes all of them: the more have gone, the slower the rest. A search from the front passes
// none.
//
// A front is the first row that a look at the key has found, never a conclusion from what was sent; or, where the look
// has found none, the last one that has gone: keys whose rows come one after another are empty in between. It counts
// until a row of the key appears before it (Appeared), or others may have changed rows (Clear); a search that finds
// nothing behind the front proves nothing and is made again from the beginning.
//
// Single-threaded.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <unordered_map>

#include "base/uuid.h"

namespace outbox::parked {

// A point in the order in which the rows of a key go (schema/44_keys.sql).
struct KeyPoint {
  int64_t created_at = 0;  // Unix microseconds
  int64_t replay = 0;
  Uuid id{};

  friend bool operator<(const KeyPoint& a, const KeyPoint& b) {
    return std::tie(a.created_at, a.replay, a.id) < std::tie(b.created_at, b.replay, b.id);
  }
  friend bool operator==(const KeyPoint&, const KeyPoint&) = default;
};

inline constexpr KeyPoint kKeyBeginning{std::numeric_limits<int64_t>::min(), 0, {}};
inline constexpr KeyPoint kKeyEnd{std::numeric_limits<int64_t>::max(), 0, {}};

class KeyFronts {
 public:
  // Keys with fewer waiting rows than this are searched from their beginning where there is no room for them.
  static constexpr size_t kManyRows = 16;

  KeyPoint Of(uint64_t key) const {
    const auto found = fronts_.find(key);
    return found == fronts_.end() ? kKeyBeginning : found->second;
  }
  bool Knows(uint64_t key) const { return fronts_.count(key) > 0; }
  // `first`: the first of `rows` waiting rows that a search from Of(key) has found.
  void Found(uint64_t key, const KeyPoint& first, size_t rows) {
    if (fronts_.size() >= kMostKeys && !Knows(key)) {
      if (rows < kManyRows) {
        return;
      }
      fronts_.clear();
    }
    fronts_[key] = first;
  }
  // A row of the key is at `point`.
  void Appeared(uint64_t key, const KeyPoint& point) {
    const auto found = fronts_.find(key);
    if (found != fronts_.end() && point < found->second) {
      fronts_.erase(found);
    }
  }
  // Nothing of the key waits any more; `last`: a row that has gone, so that all that has is at it or before it.
  void Emptied(uint64_t key, const KeyPoint& last) {
    if (fronts_.size() < kMostKeys || Knows(key)) {
      KeyPoint& front = fronts_.try_emplace(key, last).first->second;
      front = std::max(front, last);
    }
  }
  void Forget(uint64_t key) { fronts_.erase(key); }

  // The same of dead letters, which go when people have them tried again: none is before that. Only this lane makes
  // rows dead letters, which DeadAppeared says; what people do by hand is looked at anew (Clear).
  KeyPoint DeadOf(uint64_t key) const {
    const auto found = dead_.find(key);
    return found == dead_.end() ? kKeyBeginning : found->second;
  }
  // What a search from DeadOf(key) has found; kKeyEnd: none.
  void FoundDead(uint64_t key, const KeyPoint& first) {
    if (dead_.size() < kMostKeys || dead_.count(key) > 0) {
      dead_[key] = first;
    }
  }
  void DeadAppeared(uint64_t key, const KeyPoint& point) {
    const auto found = dead_.find(key);
    if (found != dead_.end() && point < found->second) {
      dead_.erase(found);
    }
  }
  void Clear() {
    fronts_.clear();
    dead_.clear();
  }

 private:
  static constexpr size_t kMostKeys = 4096;

  std::unordered_map<uint64_t, KeyPoint> fronts_;
  std::unordered_map<uint64_t, KeyPoint> dead_;
};

inline const KeyFronts kNoFronts;

}  // namespace outbox::parked
