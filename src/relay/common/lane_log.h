// What the engine needs of the log, lane by lane [-]. Implemented by log/ over Postgres, by fakes in unit tests.
//
// Single-threaded. Every call is its own short transaction (or none): nothing is open when a call returns. A failed
// Status means "nothing happened, try again later"; the engine backs off. What a process cannot survive (FATAL) does
// not return.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "base/due_counts.h"
#include "base/event.h"
#include "base/event_filter.h"
#include "base/position.h"
#include "base/status.h"
#include "sink/sink.h"

namespace outbox::relay {

// Microseconds until a call that failed so is tried again: the next delay, of `backoff`.
inline int64_t PauseAfter(const Error& error, Backoff* backoff, uint64_t random) {
  constexpr int64_t kLongestLocked = 500'000;
  const int64_t pause = backoff->Next(random);
  return error.code != kLocked || pause < kLongestLocked ? pause : kLongestLocked / 2 + pause % (kLongestLocked / 2);
}

struct Window {
  Snapshot from;
  Snapshot to;
  // WAL position that must be durable (locally, and on the standbys that synchronous_standby_names asks for) before
  // any event of this window may be published: invariant 2.
  uint64_t durable_lsn = 0;
  // `to` was the current snapshot, not a recorded one: when this window is read, the lane has caught up.
  bool current = false;
};

// What a lane has lost with earlier server runs.
struct Loss {
  Error error;           // ok(): nothing; LOST_WRITES
  bool rewound = false;  // its position was moved back to where nothing is missing: reload it
  bool missing = false;  // some of it is not sent again by itself
};

class LaneLog;

// A lane's progress, to be saved.
struct ProgressSave {
  LaneLog* log = nullptr;
  Position position;
  // Where the events delivered since the last call are, one for each topic and partition (their flow means nothing);
  // those of events behind a gap may be named again later.
  std::vector<sink::Place> places;
  // Something was delivered or parked. If not, the position only moved past what is not the lane's: it may be lost in
  // a crash, so it need not be flushed.
  bool durable = true;
  // The answer; false: another worker owns the lane, nothing of it was written, and the engine must let it go at once.
  bool owner = true;
};

class LaneLog {
 public:
  virtual ~LaneLog() = default;

  // Where the lane stands durably.
  virtual Status LoadPosition(Position* position) = 0;
  // As of LoadPosition: since when the lane is there, in Unix microseconds. What was emitted before, for a route that
  // was made later or was moved there since, says nothing about how long an event takes.
  virtual int64_t there_since() const { return kBeforeAllTime; }

  // Opens the window that follows `position`: the rest of its unfinished one, else up to the next recorded snapshot,
  // else up to now. `*opened` is false when nothing can have been added (then `window` is untouched). At most one
  // window is open for reading; opening ends the reading of the one before (whose events may still be in flight).
  virtual Status OpenWindow(const Position& position, Window* window, bool* opened) = 0;

  // Why the last OpenWindow opened nothing: the lane may read no further for now, though more may have been committed.
  // It does not pass a barrier, and its position is saved without delay. This ends when it is added again.
  virtual bool stopped() const { return false; }

  // No window ends beyond `limit` from now on: the last one ends exactly there (as with another limit of the log's own,
  // the nearer one counts), it is not `current`, and from there on nothing is opened, though stopped() stays false.
  // nullptr: no limit. Only for side lanes on their way back; `limit` covers what they have read. Copies it.
  virtual void LimitTo(const Snapshot* limit) { static_cast<void>(limit); }

  // Appends events of the open window to `chunk`, in created_at order, until about `max_bytes`. `*end`: the window is
  // read to its end (the chunk may hold its last events). Nothing appended and not the end: a large window is still
  // being sorted; that is done in slices of some 100 ms, so look after deliveries and call again without delay.
  // Memory is bounded by max_bytes plus one event plus a fixed buffer, however large the window.
  virtual Status ReadChunk(size_t max_bytes, EventChunk* chunk, bool* end) = 0;

  // In this turn others have looked through the log for the lane up to now, and found nothing: it need not open a
  // window because it was woken. Where it stands may be saved as it is; the next window begins there.
  virtual bool rests() const { return false; }

  // Rows of the log were looked at in the open window so far, whether this lane wants them or not. While there are
  // none, the lane's position is not worth saving.
  virtual bool saw_rows() const { return true; }

  // What was found for the lane in the open window, and in windows that were read ahead of it, and is not handed out,
  // as far as it is due by the wall clock.
  struct Found {
    DueEvents events;
    bool whole = true;             // false: the open window is not looked through yet, and nothing of it is told
    const Snapshot* to = nullptr;  // where the last window read ahead ends; nullptr: none is
  };
  virtual Found FoundAhead(int64_t wall) const { return static_cast<void>(wall), Found(); }

  // Never blocks on the network: flushes WAL locally, then looks how far the standbys are.
  virtual Status CheckDurable(uint64_t lsn, bool* durable) = 0;

  // Appends to the progress of several lanes in one transaction: all of it, or nothing. Their logs are of one making;
  // this one is among them.
  virtual Status SaveProgress(std::span<ProgressSave> saves) = 0;

  // Called when another run of the destination's server answers; only for lanes (not side lanes), once their progress
  // is saved. Finds out, from what ServerRuns::Record stored, whether that run has what other runs at its address have
  // acknowledged. If not, and if `resend` is set, the lane is put back to the newest progress of which nothing is
  // missing, and so are its side lanes; what was delivered from the ParkedLog is parked again. Without `resend` there
  // is only a warning. May fail with kNotOwner.
  virtual Status Rewind(const std::string& server_run, bool resend, Loss* loss) {
    return static_cast<void>(server_run), static_cast<void>(resend), static_cast<void>(loss), Status();
  }
  // The server run, or the id of the cluster, that is recorded with subsequent SaveProgress calls.
  virtual void SetServerRun(const std::string& server_run) { static_cast<void>(server_run); }
};

}  // namespace outbox::relay
