// How far a lane has come [-].
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "base/snapshot.h"

namespace outbox {

inline constexpr int64_t kBeforeAllTime = std::numeric_limits<int64_t>::min();

// All events visible in `base` are done. With a target, so are those of the window (base, target] whose created_at is
// not above done_to: a window's rows are immutable and uniquely sorted, so it is resumed, never repeated.
struct Position {
  Snapshot base;
  std::optional<Snapshot> target = std::nullopt;
  int64_t done_to = kBeforeAllTime;  // Unix microseconds

  // An event of that transaction and created_at is done where a lane stands here.
  bool Covers(uint64_t xid, int64_t created_at) const {
    return base.Visible(xid) || (target && created_at <= done_to && target->Visible(xid));
  }
  bool operator==(const Position& other) const = default;
};

}  // namespace outbox
