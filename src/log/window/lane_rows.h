// What one lane gets out of a window [P behind, no Postgres type in sight]: its events while they are few, else only
// where its rows are, sorted with spill. Filled while the window is looked through, handed out by LaneReader.
//
// Few: what is handed out as one chunk (EngineOptions::chunk_bytes), whose bytes move. More would be copied a second
// time, out of memory that was touched long ago: a drain of 7 MB windows took 1.25 s of CPU for a million events that
// way, and 1.03 s where the rows were fetched from the log again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/due_counts.h"
#include "base/event.h"
#include "base/sorted_spill.h"

namespace outbox::log {

// A copy with all its bytes.
Event CopyEvent(const Event& event, Arena* arena);

class LaneRows {
 public:
  // How much all rows of several lanes take together, and may take.
  struct Budget {
    size_t held = 0;
    size_t most_events = 0;  // beyond that no lane keeps events in memory, and beyond half of it none that is behind
  };

  static constexpr size_t kMostEventBytes = size_t{512} << 10;

  // `memory`: bytes; a quarter of it at most for events, `sort_memory` for sorting locations. `budget` may be nullptr,
  // else it outlives this object. `own_bytes`: what whoever holds this takes besides the rows.
  LaneRows(size_t memory, size_t sort_memory, Budget* budget, size_t own_bytes = 0);
  ~LaneRows();
  LaneRows(const LaneRows&) = delete;
  LaneRows& operator=(const LaneRows&) = delete;

  // The lane has other windows to read before this one, so that more of them fit in if its events are fetched from the
  // log when their turn comes.
  void StandBehind() { behind_ = true; }

  // A row of the lane. `deliver_at`: 0: at once. `bytes`: of the event in memory, about; `copy(Arena*, Event*)` makes
  // it.
  template <typename Copy>
  void Add(const RowLocation& row, int64_t deliver_at, size_t bytes, const Copy& copy) {
    if (deliver_at != 0) {
      delayed_.Add(deliver_at);
    } else {
      oldest_ = oldest_ == 0 || row.created_at < oldest_ ? row.created_at : oldest_;
    }
    bytes += sizeof(RowLocation);
    if (sorted_ == nullptr && IsTooMuch(bytes)) {
      ToLocations();
    }
    if (sorted_ != nullptr) {
      sorted_->Add(row);
    } else {
      buffered_bytes_ += bytes;
      buffered_.events.emplace_back();
      copy(&buffered_.arena, &buffered_.events.back());
      locations_.push_back(row);
    }
    Charge();
  }
  // No more rows come. The second time it does nothing.
  void Finish();
  void Free();

  // Once finished. The window was too large to be held in memory: locations are in sorted().
  bool large() const { return sorted_ != nullptr; }
  SortedSpill* sorted() { return sorted_.get(); }
  const SortedSpill* sorted() const { return sorted_.get(); }
  // Else: how many events, and each in the order of created_at.
  size_t events() const { return locations_.size(); }
  const Event& event(size_t i) const { return buffered_.events[locations_[i].location]; }
  size_t event_bytes() const { return buffered_bytes_; }
  // Moves all events into the chunk, which is empty.
  void MoveEvents(EventChunk* chunk);

  // How many were added; 0 once it is freed.
  uint64_t count() const { return sorted_ != nullptr ? sorted_->count() : locations_.size(); }
  // Those that are due, but for the first `gone` of them, of which NoteGone() was called for each with a deliver_at;
  // about since when.
  DueEvents WaitingAt(int64_t wall, uint64_t gone) const {
    const uint64_t left = count() - gone;
    DueEvents due;
    due.count = left - std::min<uint64_t>(left, delayed_.all());
    due.since = due.count == 0 ? 0 : oldest_;
    due.Add(delayed_.At(wall));
    return due;
  }
  bool delays() const { return !delayed_.empty(); }
  void NoteGone(int64_t deliver_at) { delayed_.Remove(deliver_at); }

  size_t memory_used() const { return buffered_bytes_ + (sorted_ != nullptr ? sorted_->memory_used() : 0); }

 private:
  bool IsTooMuch(size_t bytes) const {
    return !locations_.empty() && (buffered_bytes_ + bytes > std::min(memory_ / 4, kMostEventBytes) ||
                                   (budget_ != nullptr && budget_->held + bytes > (behind_ ? budget_->most_events / 2
                                                                                           : budget_->most_events)));
  }
  void ToLocations();
  void Charge() {
    if (budget_ != nullptr) {
      const size_t now = own_bytes_ + memory_used();
      budget_->held += now - charged_;  // wraps around where it has become less
      charged_ = now;
    }
  }

  size_t memory_;
  size_t sort_memory_;
  Budget* budget_;
  size_t own_bytes_;
  size_t charged_ = 0;
  bool behind_ = false;
  bool finished_ = false;
  int64_t oldest_ = 0;                  // smallest created_at of those without a deliver_at; 0: none
  DueCounts delayed_;                   // of the others
  EventChunk buffered_;                 // unsorted, with ...
  std::vector<RowLocation> locations_;  // ... where each was; once finished, `location` is its index in buffered_
  size_t buffered_bytes_ = 0;
  std::unique_ptr<SortedSpill> sorted_;  // once there are too many
};

}  // namespace outbox::log
