// What a lane has read and not yet acknowledged [-]: windows, their chunks of events, and the state of every event.
// Events are numbered in reading order (ordinals, from 0). The done ones form a prefix, plus some beyond the first gap;
// the position that may be saved is the end of the prefix. Bookkeeping per event is one byte; results come and go as
// ranges.
//
//   windows   [ W7: read ][ W8: read ][ W9: being read ...
//   chunks    [ c1 ][ c2 ][ c3 ][ c4 ][ c5 ]
//   events    ddddddddddsssddssssssssssrrrrrrrr     d done   s sent   r ready
//             prefix ---^     cursor --^
//
// Single-threaded. Owns the events until they are done; knows no sink and no log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "base/due_counts.h"
#include "base/event.h"
#include "base/position.h"
#include "relay/common/lane_log.h"
#include "relay/common/meter.h"
#include "relay/common/ordinals.h"
#include "relay/common/watchdog.h"

namespace outbox::relay {

// Neighbouring events in one chunk, all ready. Valid until the pipeline is changed.
struct EventSpan {
  uint64_t first = 0;  // ordinal
  const Event* events = nullptr;
  uint32_t count = 0;
  uint64_t durable_lsn = 0;  // of the window they belong to
};

class Pipeline {
 public:
  Pipeline() = default;
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // --- reading ---
  void Start(Position position) { at_ = std::move(position); }
  // Where the front window began, or was resumed; where the lane stands while none is open.
  const Position& at() const { return at_; }
  // What to open the next window from.
  Position ReadPosition() const;
  void AddWindow(Window window, uint64_t barrier);
  // The newest window's bounds; where the lane stands while none is open.
  const Snapshot& newest_from() const { return windows_.empty() ? at_.base : windows_.back().window.from; }
  const Snapshot& newest_to() const { return windows_.empty() ? at_.base : windows_.back().window.to; }
  // The newest window is not read to its end.
  bool reading() const { return !windows_.empty() && !windows_.back().read; }
  // Takes the chunk (it may be empty). Returns the bytes it holds.
  size_t AddChunk(EventChunk chunk, bool end);
  // The barrier is reached when everything read so far is done.
  void AddBarrier(uint64_t barrier);

  // --- sending ---
  // The next events to send, at most `limit`; count is 0 when there are none.
  EventSpan NextSpan(uint32_t limit);
  // The first `count` events of the span got seqs from `first_seq` on; `sent_at` for the meter.
  void MarkSent(const EventSpan& span, uint32_t count, uint64_t first_seq, int64_t sent_at = 0);
  // Passes over one ready event without sending it; it stays ready (the lane has refused it and will park it).
  void Skip(uint64_t ordinal) { cursor_ = ordinal + 1; }
  // Applies one outcome to the sent events among [first_seq, first_seq + count). Delivered ones become done, others
  // ready, and their ordinals' bounds are appended to *undone as [first, last]. Returns how many events it applied to.
  // `meter` is told what was delivered.
  uint32_t Resolve(uint64_t first_seq, uint32_t count, bool delivered, std::vector<OrdinalRange>* undone,
                   Meter* meter = nullptr);
  // Everything sent becomes ready again. Returns the first of them, or prefix().
  uint64_t ForgetSent();
  // The next span starts at the first event that is not done.
  void Rewind() { cursor_ = prefix_; }
  // A parked event.
  void MarkDone(uint64_t ordinal);
  // nullptr for an event that is done.
  const Event* Find(uint64_t ordinal) const;

  // --- topics ---
  // The part that one topic has of the events read, while nothing is in flight.
  struct Share {
    Position start;                  // all its events up to here are done, or in `ordinals` before `leave`
    std::vector<uint64_t> ordinals;  // its events that are not done, ascending
    size_t leave = 0;                // so many of them are not after `start`: a later event is done already
  };
  // `matches` says whether an event is the topic's; `mark` is the topic's mark.
  Share ShareOf(const std::function<bool(const Event&)>& matches, uint64_t mark) const;
  // Every position read up to; nothing of it is dropped by a later change of what is read.
  Position ReadTo() const;
  // The bytes of a chunk go when its events are done, also behind a gap; what topics they had is kept as marks. Without
  // a marker, or after ForgetMarks(), such a chunk counts as one with events of every topic.
  void SetMarker(std::function<uint64_t(const Event&)> marker) { marker_ = std::move(marker); }
  void ForgetMarks();

  // --- acknowledging ---
  // Moves the prefix over what is done and closes finished windows. Returns true if the saved position would change.
  bool Advance();
  // Where the lane would resume.
  Position position() const;
  // Bytes freed since the last call.
  size_t TakeFreed();

  uint64_t prefix() const { return prefix_; }
  uint64_t read_to() const { return next_; }             // the ordinal of what is read next
  uint32_t outstanding() const { return outstanding_; }  // sent, no outcome yet
  OldestRecord oldest() const {
    return submissions_.empty() ? OldestRecord{}
                                : OldestRecord{submissions_.front().first_seq, submissions_.front().left};
  }
  // Upper bound for how many of those come after the newest delivered event: what the destination has not got round to
  // yet. The others are slower than their neighbours.
  uint64_t outstanding_fresh() const { return cursor_ > newest_ ? cursor_ - newest_ : 0; }
  uint64_t unresolved() const { return next_ - prefix_ - done_ahead_; }
  uint64_t done_ahead() const { return done_ahead_; }
  // Of those, what is due by the wall clock: since it was emitted, or since its deliver_at.
  DueEvents WaitingAt(int64_t wall) const;
  bool has_done_ahead() const { return done_ahead_ > 0; }  // some are done beyond a gap, which no position can express
  size_t bytes() const { return bytes_; }
  size_t windows() const { return windows_.size(); }
  bool empty() const { return windows_.empty(); }
  uint64_t barrier_done() const { return barrier_done_; }
  void ReachBarrier(uint64_t barrier) { barrier_done_ = barrier > barrier_done_ ? barrier : barrier_done_; }
  int64_t done_to() const { return last_done_; }  // created_at at the prefix; 0: none yet

 private:
  enum State : uint8_t { kReady, kSent, kDone };
  struct OpenWindow {
    Window window;
    int64_t done_to = kBeforeAllTime;  // created_at up to which the events read since it was opened are done
    int64_t read_to = kBeforeAllTime;  // created_at of the last event read since it was opened
    uint64_t barrier = 0;
    bool read = false;
  };
  struct Chunk {
    EventChunk data;  // freed when all are done
    std::vector<uint8_t> states;
    uint64_t first = 0;
    uint64_t window = 0;  // number of its window
    size_t bytes = 0;
    uint32_t done = 0;
    int64_t last_created_at = 0;
    // Once the data is freed: topics, and the created_at of the last event of each.
    std::vector<std::pair<uint64_t, int64_t>> marks;
    bool marked = false;
  };
  struct Submission {
    uint64_t first_seq;
    uint64_t first;  // ordinal
    uint32_t count;
    uint32_t left;
    int64_t sent_at;
  };

  Chunk* ChunkOf(uint64_t ordinal);
  const Chunk* ChunkOf(uint64_t ordinal) const;
  // Sets the sent ones among the ordinals to `state`; returns how many.
  uint32_t SetSent(uint64_t first, uint32_t count, State state);
  // Tells the meter of those that are sent, which are about to be done.
  void Measure(uint64_t first, uint32_t count, int64_t sent_at, Meter* meter) const;
  void CountDone(Chunk* chunk, uint32_t count);
  void ForgetDue(const Chunk& chunk, size_t at) {
    if (!delayed_.empty() && chunk.data.events[at].deliver_at != 0) {
      delayed_.Remove(chunk.data.events[at].deliver_at);
    }
  }
  void Mark(Chunk* chunk) const;
  // created_at of the last event of the topic in a chunk whose data is gone; kBeforeAllTime: none.
  static int64_t LastMarked(const Chunk& chunk, uint64_t mark);
  void DropResolved();

  std::function<uint64_t(const Event&)> marker_;
  Position at_;  // where the front window began, or was resumed; where the lane stands while none is open
  std::deque<OpenWindow> windows_;
  uint64_t front_window_ = 0;  // number of windows_.front()
  std::deque<Chunk> chunks_;
  std::deque<Submission> submissions_;  // ascending first_seq
  uint64_t next_ = 0;                   // ordinal of the next event read
  uint64_t cursor_ = 0;                 // no ready event before it, but skipped ones
  uint64_t prefix_ = 0;                 // all before are done
  uint64_t newest_ = 0;                 // the ordinal after the newest delivered
  uint64_t done_ahead_ = 0;             // done ones at or after the prefix
  uint32_t outstanding_ = 0;
  size_t bytes_ = 0;
  size_t freed_ = 0;
  DueCounts delayed_;  // events that are not done and have a deliver_at
  mutable uint64_t first_undelayed_ =
      0;  // no event before it that is not done has none; WaitingAt() goes on from there
  int64_t last_done_ = 0;
  uint64_t barrier_done_ = 0;
};

}  // namespace outbox::relay
