// Windows that lanes of one worker read together [P behind, no Postgres type in sight]. The first lane that opens a
// window has its rows looked through for all lanes that stand where it does, or nearly: each row is looked at once, its
// types and the hash of its key say which lanes may want it, and each lane gets its own (LaneRows). Another lane finds
// that when it opens its next window, without a look at the log; then it stands where the others do again.
//
// No lane waits for another: one that is slow, paused or in trouble has windows ahead of it, as many as there is memory
// for or kMostAhead, and is then left behind. Lanes are slow by turns in any backlog, for each sends as many bytes as
// the others and their shares of a window differ; those that are left behind read on together. A lane elsewhere in the
// log reads by itself until it stands where others do. What was read for a lane and not opened can be dropped at any
// time: then the lane reads it by itself.
//
// Lanes in the middle of one window read the rest of it together, each from its own time on: after seek(), those of a
// new route that starts at a time, and all of a worker that ended while it sent a large transaction.
//
// Where lanes have caught up, what is known of "now" holds for one turn of the engine, so that it includes everything
// committed before that began.
//
// A lane for which nothing was found may stay where it is (Rests): the next window that is read for it is then joined
// to the one before, as if it were one. Of thousands of lanes those alone have something to do for which something was
// found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/event_filter.h"
#include "base/position.h"
#include "base/snapshot.h"
#include "format/route_spec.h"
#include "log/window/lane_rows.h"

namespace outbox::log {

class SharedLane;
struct LaneTake;

// One pass over a window, for one lane or for several.
struct WindowReading {
  // Events above `after_time` only (Unix microseconds).
  WindowReading(Snapshot window_from, Snapshot window_to, int64_t after_time = kBeforeAllTime)
      : from(std::move(window_from)), to(std::move(window_to)), after(after_time) {}
  virtual ~WindowReading() = default;

  const Snapshot from;
  const Snapshot to;
  const int64_t after;
  uint64_t durable_lsn = 0;
  uint64_t turn = 0;       // when `to` was the current snapshot; 0: it was recorded earlier
  bool saw_rows = false;   // so far
  bool collected = false;  // to its end
  bool broken = false;     // it failed: each lane reads by itself
  std::vector<std::weak_ptr<LaneTake>> takes;
};

// A lane's part in it. The lane owns it.
struct LaneTake {
  LaneTake(std::shared_ptr<WindowReading> of, Position lane_from, const EventFilter* lane_filter, size_t memory,
           size_t sort_memory, LaneRows::Budget* budget)
      : reading(std::move(of)),
        from(std::move(lane_from)),
        narrower(!(from.base == reading->from && after() == reading->after)),
        filter(lane_filter),
        version(filter->version()),
        rows(memory, sort_memory, budget, sizeof(LaneTake) + from.base.xip.size() * sizeof(uint64_t)) {}

  // What is in it is what the lane would find.
  bool current() const { return !reading->broken && !dropped && version == filter->version(); }
  // It has been looked through for the lane, and has nothing for it.
  bool Nothing() const { return reading->collected && current() && rows.count() == 0; }
  bool saw_rows() const { return saw_before || reading->saw_rows; }
  // The lane has had a part of the window; it goes on above after().
  bool resumes() const { return from.target.has_value(); }
  int64_t after() const { return resumes() ? from.done_to : kBeforeAllTime; }

  const std::shared_ptr<WindowReading> reading;
  const Position from;  // where the lane stands; earlier than the reading begins where that follows upon nothing
  const bool narrower;  // it is another place than where the reading begins
  const EventFilter* const filter;
  const uint64_t version;  // of the filter, when it was begun
  SharedLane* lane = nullptr;
  bool opener = false;
  bool opened = false;      // the lane reads it
  bool dropped = false;     // there was no room for it
  bool saw_before = false;  // rows between where the lane stands and where the reading begins, none of them the lane's
  LaneRows rows;
};

// What says whose a row is.
struct RowNames {
  uint64_t xid = 0;
  Uuid id{};
  std::string_view aggregate_type;
  std::string_view aggregate_id;
  std::string_view event_type;
  std::string_view topic;
  int64_t deliver_at = 0;
};

class SharedWindows {
 public:
  // The lanes that want events of two types, by the number of lanes of their routes.
  struct Wanting {
    struct Group {
      uint32_t lanes = 1;
      std::vector<std::vector<SharedLane*>> by_lane;
    };
    std::vector<Group> groups;
  };

  // `most_held`: bytes of rows of lanes that read together; half of it in events, the rest is for sorting.
  explicit SharedWindows(size_t most_held = size_t{64} << 20) : most_held_(most_held), budget_{0, most_held / 2} {}
  SharedWindows(const SharedWindows&) = delete;
  SharedWindows& operator=(const SharedWindows&) = delete;

  // A turn begins; the wake-ups before it have been taken note of.
  void BeginTurn();
  uint64_t turn() const { return turn_; }

  // Where windows end that are opened in this turn: the first snapshot taken in it, if it sees all that `base` does.
  // Else it becomes the one that was taken just now, and what was known is forgotten.
  void ChooseEnd(const Snapshot& base, Snapshot* now, uint64_t* durable_lsn);
  // Whether it was found out in this turn that no transaction has finished since.
  bool NothingSince(const Snapshot& base) const;
  void NoteNothingSince(const Snapshot& base);
  // Whether that reading, or nothing since its end, is what there is to read in this turn.
  bool IsNow(const WindowReading& reading) const { return reading.turn == turn_ || NothingSince(reading.to); }

  // --- reading together ---
  // The lanes that may read a window to `to` along with one that opens it from `at`, and where it has to begin so that
  // it has all of theirs in it: events above `after`.
  struct Gathered {
    Snapshot from;
    int64_t after = kBeforeAllTime;
    std::vector<SharedLane*> with;
  };
  Gathered Gather(SharedLane* opener, const Position& at, const Snapshot& to);
  // They take part, each from where it stands. Returns the opener's part.
  std::shared_ptr<LaneTake> Join(const std::shared_ptr<WindowReading>& reading, SharedLane* opener,
                                 const std::vector<SharedLane*>& with);
  // The next rows are of that reading.
  void BeginSlice(const WindowReading& reading);
  // Call for each row; nullptr: no lane wants it. Until the next call.
  const Wanting* WantedBy(std::string_view aggregate_type, std::string_view event_type);
  // Gives a row to those that want it. `bytes()`: see LaneRows::Add, as is `copy`.
  template <typename Bytes, typename Copy>
  void Give(const Wanting& wanting, const RowNames& row, const RowLocation& location, const Bytes& bytes,
            const Copy& copy);
  // It failed: all that take part read that window by themselves, so that what is wrong with one lane's rows does not
  // stop the others.
  void Break(WindowReading* reading);

  // What was read for lanes that have not opened it is read again: rows were changed, which forget() alone does.
  void ForgetAhead();

  size_t held() const { return budget_.held; }

 private:
  friend class SharedLane;

  static constexpr size_t kLeastSorting = size_t{64} << 10;  // bytes, of one lane
  static constexpr size_t kMostTypes = 4096;
  static constexpr size_t kMostNothing = 4;

  using Types = std::pair<std::string_view, std::string_view>;
  struct TypesHash {
    using is_transparent = void;
    size_t operator()(const Types& types) const {
      return std::hash<std::string_view>()(types.first) * 31 + std::hash<std::string_view>()(types.second);
    }
  };
  struct TypesEqual {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return a.first == b.first && a.second == b.second;
    }
  };
  using WantingTable = std::unordered_map<std::pair<std::string, std::string>, Wanting, TypesHash, TypesEqual>;

  void Add(SharedLane* lane);
  void Remove(SharedLane* lane);
  void ForgetTypes();
  void MakeRoom();
  static void Drop(SharedLane* lane);

  const size_t most_held_;
  uint64_t turn_ = 0;
  std::optional<Snapshot> now_;  // nullopt: no lane has looked yet
  uint64_t durable_lsn_ = 0;
  std::vector<Snapshot> nothing_since_;
  LaneRows::Budget budget_;
  std::vector<SharedLane*> lanes_;
  WantingTable types_;
  const WantingTable::value_type* last_types_ = nullptr;
};

// One lane among them. Outlives its takes, and is outlived by the windows.
class SharedLane {
 public:
  // How many windows are read ahead of a lane at most.
  static constexpr size_t kMostAhead = 64;
  // Lanes whose positions are so many transactions apart at most are read together, from where the last one stands.
  static constexpr uint64_t kNear = 2000;
  static constexpr uint64_t kAdoptedEnd = 503;  // of days/log_table_list.h

  // `memory`: for its window, bytes. The filter outlives this object.
  SharedLane(SharedWindows* windows, const EventFilter* filter, size_t memory);
  ~SharedLane();
  SharedLane(const SharedLane&) = delete;
  SharedLane& operator=(const SharedLane&) = delete;

  // Its next window begins there. What was read ahead from elsewhere is forgotten.
  void Stand(const Position& position);
  // It reads by itself.
  void StandNowhere();
  // It reads that window by itself or as the opener, which has not failed: its next windows may be read with others.
  void NoteOpened(LaneTake* take);
  // The window from there if others have read it, or have begun to; it is opened then. nullptr: they have not, or have
  // found nothing in it, and there may be more by now: then it goes on from LooksFrom().
  std::shared_ptr<LaneTake> TakeAhead(const Position& position);
  // Where a window begins that is to be looked through for the lane: behind what is known to hold nothing for it.
  const Snapshot& LooksFrom() const { return end_base(); }
  // Others have looked as far as there is to read in this turn, and found nothing for the lane.
  bool Rests() const;

  // What was read ahead of it.
  struct Ahead {
    DueEvents events;              // those that are due by the wall clock
    const Snapshot* to = nullptr;  // nullptr: nothing was
  };
  Ahead FoundAhead(int64_t wall) const;

 private:
  friend class SharedWindows;

  // What was read ahead by another filter, or not to its end, is none.
  void ForgetOutdated();
  // The window to `reading`'s end is one with what has nothing for the lane.
  std::shared_ptr<LaneTake> Extend(const std::shared_ptr<WindowReading>& reading, size_t sort_memory);
  // Where it stands when it has opened what is ahead, and whether that is in the middle of a window.
  const Snapshot& end_base() const { return ahead_.empty() ? standing_->base : ahead_.back()->reading->to; }
  bool resumes() const { return ahead_.empty() && standing_->target; }
  // The rest of a window that it has had a part of is opened, though there is nothing in it: the next one begins at a
  // snapshot.
  bool EndsWithNothing() const { return !ahead_.empty() && ahead_.back()->Nothing() && !ahead_.back()->resumes(); }
  bool ReadsAlong() const { return standing_ && !alone_ && ahead_.size() < kMostAhead; }

  SharedWindows* const windows_;
  const EventFilter* const filter_;
  const size_t memory_;
  std::optional<Position> standing_;
  bool alone_ = false;
  std::deque<std::shared_ptr<LaneTake>> ahead_;
  LaneTake* taking_ = nullptr;  // what rows are given to just now
};

template <typename Bytes, typename Copy>
void SharedWindows::Give(const Wanting& wanting, const RowNames& row, const RowLocation& location, const Bytes& bytes,
                         const Copy& copy) {
  const bool spread = wanting.groups.size() > 1 || wanting.groups.front().lanes > 1;
  const uint32_t hash = spread ? format::KeyHash(row.aggregate_id, row.id) : 0;
  for (const Wanting::Group& group : wanting.groups) {
    for (SharedLane* lane : group.by_lane[hash % group.lanes]) {
      LaneTake* take = lane->taking_;
      if (take == nullptr || (take->narrower && take->from.Covers(row.xid, location.created_at)) ||
          !take->filter->Wants(row.aggregate_type, row.aggregate_id, row.event_type, row.id, row.topic)) {
        continue;
      }
      take->rows.Add(location, row.deliver_at, bytes(), copy);
      if (budget_.held > most_held_ && !take->opener) {
        Drop(lane);
      }
    }
  }
}

}  // namespace outbox::log
