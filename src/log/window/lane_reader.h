// Reads one window of one lane: its events held in memory when they are few, else only the locations of its rows,
// sorted with spill, and each chunk's rows fetched when their turn comes [P behind]. By itself, or with other lanes
// (shared_window.h): then the first that opens the window looks through it for all. Call everything but the constructor
// and the destructor under a guard, in a transaction with an active snapshot; the transactions may be different ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/event.h"
#include "log/window/shared_window.h"
#include "log/window/window_scan.h"
#include "relay/common/lane_log.h"

namespace outbox::log {

// Looking through one window, in slices.
class WindowPass final : public WindowReading {
 public:
  WindowPass(const Snapshot& window_from, const Snapshot& window_to, int64_t after_time)
      : WindowReading(window_from, window_to, after_time) {
    bounds_.Set(window_from, window_to);
  }

  // Looks at up to about `budget` rows more. Returns false if a day table was rewritten since the last call. `windows`:
  // of several lanes that take part; nullptr: `take` is the only one.
  bool Advance(size_t budget, SharedWindows* windows, LaneTake* take);

  const WindowBounds& bounds() const { return bounds_; }
  const days::LogTableList& leaves() const { return leaves_; }
  uint64_t commit_lsn() const { return scan_.commit_lsn; }  // see XidFates
  uint64_t looked() const { return scan_.looked; }

 private:
  WindowBounds bounds_;
  bool begun_ = false;
  days::LogTableList leaves_;  // what locations refer to; a copy, because the process' list changes
  ScanState scan_;
};

class LaneReader {
 public:
  // `memory`: bytes; see LaneRows, half of it is for sorting locations. `windows`: nullptr for a lane
  // that always reads by itself, else outlives this object.
  LaneReader(const EventFilter* filter, size_t memory, SharedWindows* windows = nullptr);
  ~LaneReader();

  // Starts over with the window (from, to], events above `after` only.
  void Open(const Snapshot& from, const Snapshot& to, int64_t after);
  // The same with a window that is read with others: a WindowPass. No Postgres call.
  void Open(std::shared_ptr<LaneTake> take);
  void Close();
  // Opening failed: the lanes that were to read along do not.
  void Abandon();
  bool open() const { return state_ != State::kClosed; }
  LaneTake* take() const { return take_.get(); }

  // Looks at up to about `budget` rows more; afterwards collected() says whether that was all. Returns false if a day
  // table was rewritten since the last call; then Undo() has the window collected again.
  bool Collect(size_t budget);
  bool collected() const { return state_ > State::kCollecting; }
  // About how many rows were looked at of the window that is open.
  uint64_t looked() const { return pass_->looked(); }
  // Takes what was found so far for all that is in the window: for those that only look.
  void EndEarly();

  // Appends what comes next until about `max_bytes`; only when collected(). Then, when the transaction has committed,
  // Confirm(); when it has not, Undo() cuts the chunk back to `before` events and the next Fetch repeats it. Returns
  // false if a row of a large window is no longer where it was (see PgLaneLog::ReadChunk); then Undo() has the window
  // collected again, as it has after a Collect() that failed.
  bool Fetch(size_t max_bytes, EventChunk* chunk);
  void Confirm(const EventChunk& chunk);
  void Undo(EventChunk* chunk, size_t before);
  // Whether everything was handed out.
  bool at_end() const;
  // Once collected: the position that has to be durable before its events are published, if it was `lsn` so far, for
  // all lanes that read the window.
  uint64_t NarrowDurable(uint64_t lsn);
  // Whether Fetch needs no transaction because all events are in memory, or were.
  bool in_memory() const { return state_ > State::kLocations; }

  // Whether a row was looked at since Open(), wanted or not.
  bool saw_rows() const { return saw_rows_ || (take_ != nullptr && take_->saw_rows()); }

  // What was found, not handed out yet, and is due; only when collected(), and about: what was handed out last may be
  // among it.
  DueEvents LeftAt(int64_t wall) const {
    DueEvents left;
    if (state_ == State::kLocations || state_ == State::kEvents) {
      left = take_->rows.WaitingAt(wall, next_);
      left.since = left.count == 0 ? 0 : std::max(left.since, after_);
    }
    return left;
  }

 private:
  // kDone: events that were all handed out.
  enum class State { kClosed, kCollecting, kLocations, kEvents, kDone };

  void Take(std::shared_ptr<LaneTake> take);
  void ReadAlone(const Snapshot& from, const Snapshot& to);
  void FinishCollecting();
  void FetchEvents(size_t max_bytes, EventChunk* chunk);
  bool FetchRows(size_t max_bytes, EventChunk* chunk);

  const EventFilter* filter_;
  size_t memory_;
  SharedWindows* windows_;
  State state_ = State::kClosed;
  std::shared_ptr<LaneTake> take_;
  WindowPass* pass_ = nullptr;  // of which it is a part
  int64_t after_ = 0;           // everything up to here was handed out
  bool again_ = false;          // the window has to be collected again
  bool saw_rows_ = false;

  size_t next_ = 0;                   // how many of the rows were handed out
  std::vector<RowLocation> fetched_;  // taken from the sorted ones, and the chunk with them not yet confirmed
  RowReader row_reader_;
  size_t chunk_before_ = 0;  // events in the chunk before the current Fetch
  size_t chunk_events_ = 0;  // so many came by the last one that read rows
  size_t fetched_used_ = 0;
  bool changed_ = false;  // a table of the log was rewritten
};

}  // namespace outbox::log
