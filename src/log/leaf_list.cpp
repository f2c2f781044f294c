#include "log/leaf_list.h"

#include "log/leaf.h"

#include <algorithm>
#include <ctime>
#include <new>

extern "C" {
#include "storage/sinval.h"
#include "utils/inval.h"
}

namespace outbox::log {

namespace {

constexpr int64_t kOverMicros = INT64CONST(600) * USECS_PER_SEC;

// Everything that outlives a call; leaked on purpose, so that no jump and no exit order can matter.
struct State {
  Oid parent = InvalidOid;
  uint64_t changes = 1;       // counted by the callback
  uint64_t changes_read = 0;  // when the list was last read
  LeafList list;
  std::vector<DayTable> tables;
  std::vector<LeafEntry> before;
};

State* state = nullptr;

void OnRelcacheInvalidation(Datum, Oid relation) {
  if (relation == InvalidOid || relation == state->parent) {
    state->changes++;
  }
}

int64_t MonotonicMicros() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * USECS_PER_SEC + now.tv_nsec / 1000;
}

}  // namespace

LeafList* CurrentLeafList() {
  if (state == nullptr) {
    state = new State;
    CacheRegisterRelcacheCallback(OnRelcacheInvalidation, Datum(0));
  }
  AcceptInvalidationMessages();
  if (state->changes_read == state->changes) {
    return &state->list;
  }
  uint64_t changes = state->changes;  // what changes while we read counts for the next time
  state->parent = DayTableParent(DayTableKind::kLog);
  state->tables.clear();
  ReadDayTables(DayTableKind::kLog, &state->tables);
  state->before.swap(state->list.leaves);
  state->list.leaves.clear();
  for (const DayTable& table : state->tables) {
    LeafEntry entry;
    entry.oid = table.oid;
    entry.day = table.day;
    auto known = std::find_if(state->before.begin(), state->before.end(),
                              [&](const LeafEntry& leaf) { return leaf.oid == table.oid && leaf.day == table.day; });
    state->list.leaves.push_back(known != state->before.end() ? *known : entry);
  }
  state->list.version++;
  state->changes_read = changes;
  return &state->list;
}

void CloseOldLeaves(LeafList* list) {
  int32 today = DayOfMicros(GetCurrentTimestamp() + kPgEpochMicros);
  for (LeafEntry& entry : list->leaves) {
    if (entry.closed || entry.day >= today) {  // kUnknownDay is never over
      continue;
    }
    int64_t now = MonotonicMicros();
    if (entry.over_since == 0) {
      entry.over_since = now;
    }
    Leaf leaf;
    if (now - entry.over_since < kOverMicros || !OpenLeaf(entry.oid, &leaf)) {
      continue;
    }
    if (leaf.index != nullptr) {
      uint64 largest = 0;
      LargestXid(leaf, &largest);  // stays 0 in an empty table
      entry.largest_xid = largest;
      entry.closed = true;
    }
    CloseLeaf(leaf);
  }
}

}  // namespace outbox::log
