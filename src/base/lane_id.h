// Which lane of which route: the same number in the table, in the engine and in shared memory.
#pragma once

#include <compare>
#include <cstdint>

namespace outbox {

struct LaneId {
  int64_t route_id = 0;
  int32_t lane = 0;
  int32_t side = 0;  // 0: the lane itself; else one of its side lanes, which never have an owner of their own
  auto operator<=>(const LaneId&) const = default;  // NOLINT(modernize-use-nullptr): of clang-tidy 14
};

}  // namespace outbox
