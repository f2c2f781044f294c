// Small windows that lanes of one worker read together [P behind, no Postgres type in sight]. Lanes that have caught up
// stand at one snapshot, and want to read up to now at one moment, when a commit has woken them: the first of them
// reads, and the others get its rows from memory, without a transaction of their own. A lane that stands elsewhere
// reads by itself, up to the same end: from then on it stands where the others do.
//
// What is known holds for one turn of the engine, so that it includes everything committed before that began. Large
// windows are not kept: each lane reads those itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/event.h"
#include "base/snapshot.h"

namespace outbox::log {

// All rows of a window, wanted by a lane or not, while they are few.
class WindowRows {
 public:
  static constexpr size_t kMostBytes = size_t{4} << 20;

  // A row was looked at.
  void See() { seen_ = true; }
  bool seen() const { return seen_; }
  // Where to put a row of that size; nullptr: there are too many for all to be kept.
  Event* Add(size_t bytes);
  Arena* arena() { return &chunk_.arena; }
  bool complete() const { return complete_; }
  const std::vector<Event>& events() const { return chunk_.events; }

 private:
  EventChunk chunk_;
  size_t bytes_ = 0;
  bool seen_ = false;
  bool complete_ = true;
};

struct SharedWindow {
  Snapshot from;
  uint64_t durable_lsn = 0;
  std::optional<WindowRows> rows;  // nullopt: no transaction has finished since
};

class SharedWindows {
 public:
  SharedWindows() = default;
  SharedWindows(const SharedWindows&) = delete;
  SharedWindows& operator=(const SharedWindows&) = delete;

  // A turn begins, and has taken note of who woke it.
  void BeginTurn();

  // The window from `base` to now(), if a lane has opened it in this turn. Until the next call that is not const.
  const SharedWindow* Find(const Snapshot& base) const;
  // Whether it is worth keeping all rows of another window.
  bool Wanted() const { return lanes_ > 1 && windows_.size() < kMost; }
  void Keep(SharedWindow window) { windows_.push_back(std::move(window)); }

  // Where windows end that are opened in this turn: the first snapshot taken in it, if it sees all that `base` does.
  // Else it becomes the one that was taken just now, and what was known is forgotten.
  void ChooseEnd(const Snapshot& base, Snapshot* now, uint64_t* durable_lsn);
  const Snapshot& now() const { return *now_; }

  // A lane that reads with the others.
  void Join() { ++lanes_; }
  void Leave() { --lanes_; }

 private:
  static constexpr size_t kMost = 4;

  std::optional<Snapshot> now_;  // nullopt: no lane has looked yet
  uint64_t durable_lsn_ = 0;
  std::deque<SharedWindow> windows_;
  int lanes_ = 0;
};

}  // namespace outbox::log
