#include "log/window/window_scan.h"

#include <algorithm>

extern "C" {
#include "access/relscan.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "utils/fmgroids.h"
}

namespace outbox::log {

namespace {

// Locations collected from the index before their pages are visited: rows of one stretch of time share pages.
constexpr size_t kBatch = 32768;
constexpr size_t kFirstBatch = 128;  // most windows are one or two rows: no room for a batch is made for them

constexpr unsigned kCacheLine = 64;     // bytes
constexpr unsigned kPrefetched = 1024;  // bytes of a row; what follows the processor asks for by itself

uint64 MakeLocation(BlockNumber block, OffsetNumber offset) {
  return static_cast<uint64>(block) << 16 | offset;
}
BlockNumber BlockOf(uint64 location) {
  return static_cast<BlockNumber>(location >> 16);
}
OffsetNumber OffsetOf(uint64 location) {
  return static_cast<OffsetNumber>(location & 0xffff);
}

// One slice of the pass over one log table. Owns nothing: everything in it is Postgres memory.
class TablePass {
 public:
  TablePass(const WindowBounds& window, int64_t after, const days::LogTable& log_table, XidFates* fates,
            MemoryContext scratch, RowVisitor* visitor)
      : window_(window), after_(after), log_table_(log_table), fates_(fates), scratch_(scratch), visitor_(visitor) {}

  // Returns true if the log table is done; takes what it looked at off *budget.
  bool Run(ScanState* state, size_t* budget) {
    state_ = state;
    budget_ = budget;
    strategy_ = GetAccessStrategy(BAS_BULKREAD);
    batch_ = static_cast<uint64*>(palloc(kFirstBatch * sizeof(uint64)));
    room_ = kFirstBatch;
    bool done = log_table_.index != nullptr ? ByIndex() : WholeHeap();
    Flush();
    pfree(batch_);
    FreeAccessStrategy(strategy_);
    return done;
  }

  void Pages(ScanState* state, const std::vector<uint32_t>& blocks) {
    state_ = state;
    const BlockNumber end = RelationGetNumberOfBlocks(log_table_.heap);
    batch_ = static_cast<uint64*>(palloc(kFirstBatch * sizeof(uint64)));
    room_ = kFirstBatch;
    for (uint32_t block : blocks) {
      for (int offset = 1; block < end && offset <= MaxHeapTuplesPerPage; offset++) {
        Add(MakeLocation(block, static_cast<OffsetNumber>(offset)));
      }
    }
    Flush();
    pfree(batch_);
  }

 private:
  bool ByIndex() {
    IndexScanDesc scan = days::BeginXidScan(log_table_, 2);
    bool done = true;
    for (; done && state_->part <= window_.xids.late.size(); state_->part++) {
      uint64 begin = window_.xids.begin;
      uint64 end = window_.xids.end;
      if (state_->part > 0) {
        begin = window_.xids.late[state_->part - 1];
        end = begin + 1;
      }
      begin = state_->inside ? state_->xid : begin;
      if (begin < end) {
        ScanKeyData keys[2];
        ScanKeyInit(&keys[0], 1, BTGreaterEqualStrategyNumber, F_XID8GE, UInt64GetDatum(begin));
        ScanKeyInit(&keys[1], 1, BTLessStrategyNumber, F_XID8LT, UInt64GetDatum(end));
        index_rescan(scan, keys, 2, nullptr, 0);
        done = Collect(scan);
      }
      if (!done) {
        break;
      }
      state_->inside = false;
    }
    index_endscan(scan);
    return done;
  }

  bool Collect(IndexScanDesc scan) {
    ItemPointer tid = nullptr;
    while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != nullptr) {
      bool isnull = false;
      uint64 xid = DatumGetUInt64(index_getattr(scan->xs_itup, 1, scan->xs_itupdesc, &isnull));
      uint64 row = MakeLocation(ItemPointerGetBlockNumberNoCheck(tid), ItemPointerGetOffsetNumberNoCheck(tid));
      if (state_->inside && xid == state_->xid && row <= state_->row) {
        continue;  // done in an earlier slice; entries of one xid come in the order of their rows
      }
      if (*budget_ == 0) {
        return false;
      }
      --*budget_;
      state_->inside = true;
      state_->xid = xid;
      state_->row = row;
      if (Inside(xid)) {
        Add(row);
      }
    }
    return true;
  }

  bool WholeHeap() {
    BlockNumber blocks = RelationGetNumberOfBlocks(log_table_.heap);
    for (; state_->row < blocks; state_->row++) {
      if (*budget_ == 0) {
        return false;
      }
      for (int offset = 1; offset <= MaxHeapTuplesPerPage; offset++) {
        Add(MakeLocation(static_cast<BlockNumber>(state_->row), static_cast<OffsetNumber>(offset)));
      }
      *budget_ -= Min(*budget_, MaxHeapTuplesPerPage);
    }
    return true;
  }

  void Add(uint64 row) {
    if (count_ == kBatch) {
      Flush();
    } else if (count_ == room_) {
      room_ *= 2;
      batch_ = static_cast<uint64*>(repalloc(batch_, room_ * sizeof(uint64)));
    }
    batch_[count_++] = row;
  }

  void Flush() {
    if (!std::is_sorted(batch_, batch_ + count_)) {
      std::sort(batch_, batch_ + count_);
    }
    for (size_t first = 0; first < count_;) {
      size_t last = first + 1;
      while (last < count_ && batch_[last] >> 16 == batch_[first] >> 16) {
        last++;
      }
      VisitPage(first, last);
      first = last;
    }
    count_ = 0;
  }

  // The lock is held only while tuple headers are judged: a pin alone keeps the rows where they are.
  void VisitPage(size_t first, size_t last) {
    CHECK_FOR_INTERRUPTS();
    RowView rows[MaxHeapTuplesPerPage];
    uint64 locations[MaxHeapTuplesPerPage];
    int found = 0;
    Buffer buffer = ReadBufferExtended(log_table_.heap, MAIN_FORKNUM, BlockOf(batch_[first]), RBM_NORMAL, strategy_);
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    Page page = BufferGetPage(buffer);
    OffsetNumber largest = PageGetMaxOffsetNumber(page);
    for (size_t i = first; i < last && found < static_cast<int>(MaxHeapTuplesPerPage); i++) {
      OffsetNumber offset = OffsetOf(batch_[i]);
      // An entry without a row belongs to a transaction that rolled back and was vacuumed away.
      if (offset > largest || !ItemIdIsNormal(PageGetItemId(page, offset))) {
        continue;
      }
      auto* row = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, PageGetItemId(page, offset)));
      RowView* view = &rows[found];
      // The row is checked even after an index entry: since then it may have been vacuumed away and another put there.
      if (ViewRow(row, view) && view->created_at > after_ && Inside(view->xid) && fates_->Committed(row)) {
        locations[found++] = static_cast<uint64>(state_->log_table) << 48 | batch_[i];
      }
    }
    LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
    MemoryContext saved = MemoryContextSwitchTo(scratch_);
    for (int i = 0; i < found; i++) {
      visitor_->Row(rows[i], locations[i]);
      MemoryContextReset(scratch_);  // per row: what was detoasted may be large
    }
    MemoryContextSwitchTo(saved);
    ReleaseBuffer(buffer);
  }

  bool Inside(uint64 xid) {
    if (xid != known_xid_) {
      known_xid_ = xid;
      known_inside_ = window_.Contains(xid);
    }
    return known_inside_;
  }

  const WindowBounds& window_;
  int64_t after_;
  const days::LogTable& log_table_;
  XidFates* fates_;
  MemoryContext scratch_;
  RowVisitor* visitor_;
  ScanState* state_ = nullptr;
  size_t* budget_ = nullptr;
  BufferAccessStrategy strategy_ = nullptr;
  uint64* batch_ = nullptr;
  size_t room_ = 0;  // of it
  size_t count_ = 0;
  uint64 known_xid_ = 0;
  bool known_inside_ = false;
};

}  // namespace

void WindowBounds::Set(const Snapshot& window_from, const Snapshot& window_to) {
  from = window_from;
  to = window_to;
  xids = WindowXids(from, to);
}

uint64_t WindowBounds::lowest() const {
  return xids.late.empty() ? xids.begin : std::min(xids.begin, xids.late.front());
}

namespace {

// Returns false if the cursor belongs to other files.
bool SameFiles(const days::LogTable& log_table, ScanState* state) {
  // Not the relations' own numbers: those stay when a table or an index is rewritten.
  uint32_t heap_file = log_table.heap->rd_rel->relfilenode;
  uint32_t index_file = log_table.index == nullptr ? 0 : log_table.index->rd_rel->relfilenode;
  if (state->heap_file == 0) {
    state->heap_file = heap_file;
    state->index_file = index_file;
  }
  return state->heap_file == heap_file && state->index_file == index_file;
}

}  // namespace

Scanned ScanWindow(const WindowBounds& window, int64_t after, const days::LogTableList& leaves, size_t budget,
                   ScanState* state, RowVisitor* visitor) {
  MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "outbox rows", ALLOCSET_DEFAULT_SIZES);
  XidFates fates;
  Scanned scanned = Scanned::kAll;
  // Resuming inside one huge transaction rescans the entries already visited; growing slices keep the total linear.
  budget = Max(budget, state->looked / 4);
  size_t left = budget;
  while (state->log_table < leaves.tables.size()) {
    const days::LogTableEntry& entry = leaves.tables[state->log_table];
    days::LogTable log_table;
    if (CanHold(entry, window.lowest()) && days::OpenLogTable(entry.oid, &log_table)) {
      if (!SameFiles(log_table, state)) {
        scanned = Scanned::kRewritten;
      } else if (!TablePass(window, after, log_table, &fates, scratch, visitor).Run(state, &left)) {
        scanned = Scanned::kMore;
      }
      days::CloseLogTable(log_table);
    }
    if (scanned != Scanned::kAll) {
      break;
    }
    // Reset also after a table that went away between two slices: how far that one was read says nothing about the
    // next.
    state->log_table++;
    state->heap_file = 0;
    state->index_file = 0;
    state->part = 0;
    state->inside = false;
    state->row = 0;
  }
  state->looked += budget - left;
  state->commit_lsn = Max(state->commit_lsn, fates.commit_lsn());
  MemoryContextDelete(scratch);
  return scanned;
}

void ScanPages(const WindowBounds& window, Oid log_table, const std::vector<uint32_t>& blocks, RowVisitor* visitor) {
  MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "outbox rows", ALLOCSET_DEFAULT_SIZES);
  XidFates fates;
  ScanState state;
  days::LogTable opened;
  if (days::OpenLogTable(log_table, &opened)) {
    TablePass(window, PG_INT64_MIN, opened, &fates, scratch, visitor).Pages(&state, blocks);
    days::CloseLogTable(opened);
  }
  MemoryContextDelete(scratch);
}

void RowReader::Start(const WindowBounds& window, const days::LogTableList& leaves) {
  window_ = &window;
  leaves_ = &leaves;
  opened_.assign(leaves_->tables.size(), OpenedTable());
  std::fill(pins_, pins_ + kPins, Pinned());
  fates_ = XidFates();
}

Buffer RowReader::Pin(uint64_t location) {
  size_t number = location >> 48;
  if (number >= opened_.size()) {
    return InvalidBuffer;
  }
  OpenedTable& opened = opened_[number];
  if (opened.state == OpenedTable::State::kNotYet) {
    const bool there = days::OpenLogTable(leaves_->tables[number].oid, &opened.log_table);
    opened.state = there ? OpenedTable::State::kOpen : OpenedTable::State::kGone;
    opened.blocks = there ? RelationGetNumberOfBlocks(opened.log_table.heap) : 0;
  }
  if (opened.state == OpenedTable::State::kGone || BlockOf(location) >= opened.blocks) {
    return InvalidBuffer;
  }
  uint64 page_number = location >> 16;
  Pinned& pinned = pins_[page_number % kPins];
  if (pinned.buffer == InvalidBuffer || pinned.page != page_number) {
    if (pinned.buffer != InvalidBuffer) {
      ReleaseBuffer(pinned.buffer);
      pinned.buffer = InvalidBuffer;
    }
    pinned.buffer = ReadBuffer(opened.log_table.heap, BlockOf(location));
    pinned.page = page_number;
  }
  return pinned.buffer;
}

void RowReader::Expect(const RowLocation& location) {
  const Buffer buffer = Pin(location.location);
  if (buffer != InvalidBuffer) {
    const auto* page = reinterpret_cast<const PageHeaderData*>(BufferGetPage(buffer));
    __builtin_prefetch(page);
    __builtin_prefetch(&page->pd_linp[OffsetOf(location.location) - 1]);
  }
}

// Looks at the page without its lock: what it finds is only where to look, and no address is a wrong one.
void RowReader::Prefetch(const RowLocation& location) const {
  const Pinned& pinned = pins_[(location.location >> 16) % kPins];
  if (pinned.buffer == InvalidBuffer || pinned.page != location.location >> 16) {
    return;
  }
  const char* page = BufferGetPage(pinned.buffer);
  const ItemIdData item = reinterpret_cast<const PageHeaderData*>(page)->pd_linp[OffsetOf(location.location) - 1];
  for (unsigned at = 0; at < item.lp_len && at < kPrefetched; at += kCacheLine) {
    __builtin_prefetch(page + item.lp_off + at);
  }
}

bool RowReader::Read(const RowLocation& location, RowView* row) {
  const Buffer buffer = Pin(location.location);
  if (buffer == InvalidBuffer) {
    return false;
  }
  LockBuffer(buffer, BUFFER_LOCK_SHARE);
  Page page = BufferGetPage(buffer);
  OffsetNumber offset = OffsetOf(location.location);
  HeapTupleHeader tuple = nullptr;
  if (offset <= PageGetMaxOffsetNumber(page) && ItemIdIsNormal(PageGetItemId(page, offset))) {
    tuple = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, PageGetItemId(page, offset)));
    if (!fates_.Committed(tuple)) {
      tuple = nullptr;
    }
  }
  LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
  return tuple != nullptr && ViewRow(tuple, row) && row->created_at == location.created_at &&
         window_->Contains(row->xid);
}

void RowReader::Close() {
  for (Pinned& pinned : pins_) {
    if (pinned.buffer != InvalidBuffer) {
      ReleaseBuffer(pinned.buffer);
      pinned.buffer = InvalidBuffer;
    }
  }
  for (OpenedTable& opened : opened_) {
    if (opened.state == OpenedTable::State::kOpen) {
      days::CloseLogTable(opened.log_table);
      opened.state = OpenedTable::State::kNotYet;
    }
  }
}

}  // namespace outbox::log
