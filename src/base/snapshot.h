// What pg_current_snapshot() says, without Postgres [-]: which transactions had finished at one moment.
//
// Text form is Postgres' own: "xmin:xmax:xip1,xip2". An xid is visible when it had finished (committed or not).
// Two snapshots of one server are ordered in time: whatever is visible in the older is visible in the newer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace outbox {

struct Snapshot {
  uint64_t xmin = 0;
  uint64_t xmax = 0;          // first xid not yet assigned
  std::vector<uint64_t> xip;  // in progress, sorted, each in [xmin, xmax)

  bool Visible(uint64_t xid) const;
  // Returns true if everything visible in `other` is visible here.
  bool Covers(const Snapshot& other) const;
  bool operator==(const Snapshot& other) const = default;

  std::string ToText() const;
  static std::optional<Snapshot> FromText(std::string_view text);
};

// The xids that a window (from, to] is made of: [range_begin, range_end) plus `late`, those in progress in `from` that
// have finished in `to`. xids inside the range that `to` does not see are left out by asking to.Visible().
// Source of the method: PgQ's batch_event_sql (Skype), see docs/how-it-works.md.
struct XidRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::vector<uint64_t> late;  // sorted
  bool empty() const { return begin >= end && late.empty(); }
};
XidRange WindowXids(const Snapshot& from, const Snapshot& to);

}  // namespace outbox
