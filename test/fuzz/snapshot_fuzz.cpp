// Snapshots: text goes both ways, and the answers agree with sets of xids counted out one by one.
#include <algorithm>
#include <set>

#include "base/snapshot.h"
#include "fuzz.h"

using namespace outbox;

namespace {

constexpr uint64_t kSmall = 48;

// What FromText takes is well-formed, and writes itself the same way again.
void CheckText(std::string_view text) {
  auto snapshot = Snapshot::FromText(text);
  if (!snapshot) {
    return;
  }
  FUZZ_CHECK(snapshot->xmin >= 1 && snapshot->xmin <= snapshot->xmax);
  FUZZ_CHECK(std::is_sorted(snapshot->xip.begin(), snapshot->xip.end(), std::less_equal<>()));
  for (uint64_t xid : snapshot->xip) {
    FUZZ_CHECK(xid >= snapshot->xmin && xid < snapshot->xmax && !snapshot->Visible(xid));
  }
  FUZZ_CHECK(snapshot->xmin == 0 || snapshot->Visible(snapshot->xmin - 1));
  FUZZ_CHECK(!snapshot->Visible(snapshot->xmax));
  FUZZ_CHECK(snapshot->Covers(*snapshot));
  FUZZ_CHECK(WindowXids(*snapshot, *snapshot).empty());
  FUZZ_CHECK(Snapshot::FromText(snapshot->ToText()) == snapshot);
}

Snapshot SmallSnapshot(fuzz::Input* in) {
  Snapshot snapshot;
  snapshot.xmin = 1 + in->Below(kSmall);
  snapshot.xmax = snapshot.xmin + in->Below(kSmall - snapshot.xmin + 1);
  const auto running = in->Take<uint64_t>();
  for (uint64_t xid = snapshot.xmin; xid < snapshot.xmax; ++xid) {
    if ((running >> xid & 1) != 0) {
      snapshot.xip.push_back(xid);
    }
  }
  return snapshot;
}

std::set<uint64_t> Seen(const Snapshot& snapshot) {
  std::set<uint64_t> seen;
  for (uint64_t xid = 0; xid <= kSmall + 1; ++xid) {
    if (snapshot.Visible(xid)) {
      seen.insert(xid);
    }
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  CheckText({reinterpret_cast<const char*>(data), size});

  const Snapshot from = SmallSnapshot(&in);
  const Snapshot to = SmallSnapshot(&in);
  FUZZ_CHECK(Snapshot::FromText(from.ToText()) == from);
  const std::set<uint64_t> before = Seen(from);
  const std::set<uint64_t> after = Seen(to);
  const bool covers = std::includes(after.begin(), after.end(), before.begin(), before.end());
  FUZZ_CHECK(to.Covers(from) == covers);
  if (covers) {
    // The window is what is seen now and was not before: nothing skipped, nothing twice.
    const XidRange range = WindowXids(from, to);
    std::set<uint64_t> window(range.late.begin(), range.late.end());
    FUZZ_CHECK(window.size() == range.late.size());
    for (uint64_t xid = range.begin; xid < range.end; ++xid) {
      if (to.Visible(xid)) {
        FUZZ_CHECK(window.insert(xid).second);
      }
    }
    std::set<uint64_t> fresh;
    std::set_difference(after.begin(), after.end(), before.begin(), before.end(), std::inserter(fresh, fresh.end()));
    FUZZ_CHECK(window == fresh);
  }
  return 0;
}
