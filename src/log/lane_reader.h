// Reads one window of one lane: its events held in memory when they are few, else only the locations of its rows,
// sorted with spill, and each chunk's rows fetched when their turn comes [P behind]. Call everything but the
// constructor and the destructor under a guard, in a transaction with an active snapshot; the transactions may be
// different ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/event.h"
#include "log/shared_window.h"
#include "log/window_scan.h"
#include "relay/lane_log.h"

namespace outbox::log {

class LaneReader {
 public:
  // `memory`: bytes; a quarter of it for events in memory, half for sorting locations.
  LaneReader(const EventFilter* filter, size_t memory);
  ~LaneReader();

  // Starts over with the window (from, to], events above `after` only. `all`: gets all its rows, those that the filter
  // does not want as well, as far as they are looked at; nullptr, or outlives the next Collect().
  void Open(const Snapshot& from, const Snapshot& to, int64_t after, WindowRows* all = nullptr);
  // The same with a window whose rows are known: it is collected at once. No Postgres call.
  void OpenKnown(const Snapshot& from, const Snapshot& to, const WindowRows& all);
  void Close();
  bool open() const { return state_ != State::kClosed; }

  // Looks at up to about `budget` rows more; afterwards collected() says whether that was all. Returns false if a day
  // table was rewritten since the last call; then Undo() has the window collected again.
  bool Collect(size_t budget);
  bool collected() const { return state_ == State::kEvents || state_ == State::kLocations; }

  // Appends what comes next until about `max_bytes`; only when collected(). Then, when the transaction has committed,
  // Confirm(); when it has not, Undo() cuts the chunk back to `before` events and the next Fetch repeats it. Returns
  // false if a row of a large window is no longer where it was (see PgLaneLog::ReadChunk); then Undo() has the window
  // collected again, as it has after a Collect() that failed.
  bool Fetch(size_t max_bytes, EventChunk* chunk);
  void Confirm(const EventChunk& chunk);
  void Undo(EventChunk* chunk, size_t before);
  // Whether everything was handed out.
  bool at_end() const;
  // Once collected: see XidFates::commit_lsn().
  uint64_t commit_lsn() const { return scan_.commit_lsn; }
  // Whether the window was too large to be held in memory.
  bool large() const { return state_ == State::kLocations; }
  // Whether Fetch needs no transaction because all events are in memory.
  bool in_memory() const { return state_ == State::kEvents; }

  // Whether a row was looked at since Open(), wanted or not.
  bool saw_rows() const { return saw_rows_; }

  size_t memory_used() const;

 private:
  // kOpened: nothing looked at yet.
  enum class State { kClosed, kOpened, kCollecting, kEvents, kLocations };
  class Collector;

  void FinishCollecting();
  void FetchEvents(size_t max_bytes, EventChunk* chunk);
  bool FetchRows(size_t max_bytes, EventChunk* chunk);
  void Forget();

  const EventFilter* filter_;
  size_t memory_;
  State state_ = State::kClosed;
  WindowBounds window_;
  int64_t after_ = 0;          // everything up to here was handed out
  days::LogTableList leaves_;  // what locations refer to; a copy, because the process' list changes
  ScanState scan_;
  bool saw_rows_ = false;
  WindowRows* all_ = nullptr;

  EventChunk buffered_;                 // while the window is small: unsorted, with ...
  std::vector<RowLocation> locations_;  // ... and where each was; after sorting, `place` is its index in buffered_
  size_t buffered_bytes_ = 0;
  size_t next_ = 0;  // how many of places_, or of sorted_, were handed out

  std::unique_ptr<SortedSpill> sorted_;  // once it is large
  std::vector<RowLocation> fetched_;     // taken from sorted_, and the chunk with them not yet confirmed
  RowReader row_reader_{window_, leaves_};

  size_t chunk_before_ = 0;  // events in the chunk before the current Fetch
  size_t fetched_used_ = 0;
  bool changed_ = false;  // a table of the log was rewritten
};

}  // namespace outbox::log
