// Finds the rows of a window in the day tables [P]. For use under a guard, in a transaction with an active snapshot
// (for detoasting; which one does not matter: a window is made of finished transactions, and its rows never change).
#pragma once

#include <cstdint>
#include <vector>

#include "base/snapshot.h"
#include "base/sorted_spill.h"
#include "days/log_table_list.h"
#include "log/window/row.h"
#include "log/window/xid_fate.h"

namespace outbox::log {

// The bounds of a window, with its xids worked out once.
struct WindowBounds {
  Snapshot from;
  Snapshot to;
  XidRange xids;

  void Set(const Snapshot& window_from, const Snapshot& window_to);
  bool Contains(uint64_t xid) const { return !from.Visible(xid) && to.Visible(xid); }
  // The smallest xid that can be in it.
  uint64_t lowest() const;
};

// Gets the rows, in no particular order. `row` lies in a pinned, unlocked page. What Row() pallocs is freed after each
// page. May throw.
class RowVisitor {
 public:
  virtual void Row(const RowView& row, uint64_t location) = 0;

 protected:
  ~RowVisitor() = default;  // never owned through this
};

// How far a scan has come. Recreated for each window; a scan may stop between two slices and go on in a later
// transaction: a finished transaction's rows and their order in the index do not change.
struct ScanState {
  size_t log_table = 0;
  // What the log table was read from so far: files of its table and of its index (0: it had none). A cursor into other
  // files means nothing.
  uint32_t heap_file = 0;
  uint32_t index_file = 0;
  size_t part = 0;      // 0: the range; n: the n-th late xid
  bool inside = false;  // the part was begun: resume after (xid, row)
  uint64_t xid = 0;
  uint64_t row = 0;         // block and offset; without an index: next block
  uint64_t looked = 0;      // rows looked at so far
  uint64_t commit_lsn = 0;  // of all rows looked at so far: XidFates::commit_lsn()
};

enum class Scanned {
  kAll,
  kMore,       // the budget is used up
  kRewritten,  // since the last slice the log table under way got another file (CLUSTER, VACUUM FULL, REINDEX, an index
               // made or dropped), where the cursor points anywhere: the window has to be restarted
};

// Hands rows of the window with created_at > `after` to the visitor until about `budget` rows were looked at. A table
// that is gone was dropped when all lanes were done with it, or by hand, and counts as empty.
Scanned ScanWindow(const WindowBounds& window, int64_t after, const days::LogTableList& leaves, size_t budget,
                   ScanState* state, RowVisitor* visitor);

// Hands the rows of the window in these pages to the visitor: for samples.
void ScanPages(const WindowBounds& window, Oid log_table, const std::vector<uint32_t>& blocks, RowVisitor* visitor);

// Reads single rows again by their location, in created_at order, keeping a few pages pinned. Made outside of the
// guard; Start() and Close() inside, in one transaction. After an abort, which releases pins by itself, Start() forgets
// them.
class RowReader {
 public:
  // Both outlive the next Close().
  void Start(const WindowBounds& window, const days::LogTableList& leaves);
  // A row that is read soon: its page is pinned, and the processor asked for what says where in it the row lies; then,
  // some rows later, for the row. Both are only to save time.
  void Expect(const RowLocation& location);
  void Prefetch(const RowLocation& location) const;
  // Returns false if the row is not there any more, or is another one.
  bool Read(const RowLocation& location, RowView* row);
  void Close();

 private:
  struct Pinned {
    Buffer buffer = InvalidBuffer;
    uint64_t page = 0;  // location without the offset
  };
  static constexpr int kPins = 64;
  struct OpenedTable {
    days::LogTable log_table;
    BlockNumber blocks = 0;
    enum class State : uint8_t { kNotYet, kOpen, kGone } state = State::kNotYet;
  };
  // InvalidBuffer: there is no such page any more.
  Buffer Pin(uint64_t location);

  const WindowBounds* window_ = nullptr;
  const days::LogTableList* leaves_ = nullptr;
  XidFates fates_;
  Pinned pins_[kPins];
  std::vector<OpenedTable> opened_;
};

}  // namespace outbox::log
