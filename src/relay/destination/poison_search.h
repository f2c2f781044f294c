// The search for an event that kills the sink's process [-], among what one sender sends. The sink gives turns for its
// tests: PoisonTurns.
//
// A process may die for any reason, so all that was in flight is sent again. A suspected event is sent while nothing of
// another sender is in flight. An event that kills alone three times is found. Where the process was killed from
// outside at least one of these times, killed() says so. A process that hangs is killed by its owner, which counts as a
// death.
//
// There are two ways to suspect. A lane's events go in order: suspected is what was in flight in two deaths in a row
// without having been delivered in between; it is tested as a group, and halved. Parked events need not wait for each
// other: each that was in flight in a death is tested by itself, when all others have gone.
//
// Single-threaded. Events are ordinals of the sender's source.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <utility>
#include <vector>

#include "base/status.h"
#include "relay/common/ordinals.h"

namespace outbox::relay {

// Which sender may test, of those that share one sink. Monotonic microseconds.
class PoisonTurns {
 public:
  // The flow of the sender that has the turn; 0: none.
  uint32_t holder() const { return holder_; }
  int64_t next() const { return next_; }
  bool Take(uint32_t flow, int64_t now) {
    if (holder_ == 0 && now >= next_) {
      holder_ = flow;
      quiet_ = false;
      taken_at_ = now;
    }
    return holder_ == flow;
  }
  // Whether nothing of the others is in flight, as checked after the turn was taken. What a topic in trouble keeps in
  // flight is not waited for: it has been there for a while and killed nothing.
  bool quiet() const { return quiet_; }
  void SetQuiet(bool quiet, int64_t now) { quiet_ = quiet || now - taken_at_ >= kPatience; }
  int64_t quiet_by() const { return taken_at_ + kPatience; }
  // Whether the holder's turn is over: it has sent nothing for so long, or what it sent has no answer though a process
  // that hangs would have been killed by now.
  bool Overdue(bool sent, int64_t now) const { return now - taken_at_ >= (sent ? kLongest : 2 * kPatience); }
  int64_t longest() const { return taken_at_ + kLongest; }
  void End(uint32_t flow, bool died, int64_t now) {
    if (holder_ == flow) {
      holder_ = 0;
      next_ = now + (died ? kAfterDeath : kBreath);
    }
  }
  // Something was delivered: others have found the destination to work.
  void OnDelivered(int64_t now) {
    next_ = std::min(next_, now + kBreath);
    may_blame_ = true;
    put_aside_ = 0;
  }
  // Whether an event may be blamed: when nothing was delivered since the last one was, perhaps no event is at fault.
  bool Blame() { return std::exchange(may_blame_, false); }
  // It may not: whether it is put aside, to be tried later elsewhere, so that others can show that the process lives.
  // A few are, until something is delivered, and after them one at a time, with a rest: a row of such events is passed
  // however long it is, and a process that dies whatever is sent moves no log into the table of parked events.
  // `event`: its reading of the clock.
  bool PutAside(int64_t event, int64_t now) {
    if (put_aside_ >= kPutAside && now - put_aside_at_ < kRest) {
      return false;
    }
    ++put_aside_;
    put_aside_at_ = now;
    accused_.push_back(event);
    if (accused_.size() > kAccused) {
      accused_.pop_front();
    }
    return true;
  }
  // Whether that event, which has killed another process in the same way, was put aside here and something was
  // delivered since. Forgets it then.
  bool TakeAccused(int64_t event) {
    const auto end = accused_.end() - std::min(put_aside_, std::ssize(accused_));
    const auto found = std::find(accused_.begin(), end, event);
    if (found == end) {
      return false;
    }
    accused_.erase(found);
    return true;
  }

 private:
  static constexpr int64_t kBreath = 50'000;
  static constexpr int64_t kAfterDeath = 300'000;
  static constexpr int64_t kPatience = 500'000;
  static constexpr ptrdiff_t kPutAside = 10;
  static constexpr int64_t kRest = 30'000'000;
  static constexpr size_t kAccused = 10'000;       // remembered
  static constexpr int64_t kLongest = 12'000'000;  // sink/process_sink.h gives up a process that hangs after 10 s

  uint32_t holder_ = 0;
  bool quiet_ = false;
  int64_t taken_at_ = 0;
  int64_t next_ = 0;
  bool may_blame_ = true;
  ptrdiff_t put_aside_ = 0;      // since something was delivered
  int64_t put_aside_at_ = 0;     // the last of them
  std::deque<int64_t> accused_;  // put aside, the last of them put_aside_
};

class PoisonSearch {
 public:
  static constexpr int kKills = 3;

  enum class Way : uint8_t {
    kHalving,  // groups, from the second death on
    kEachAlone,
  };

  explicit PoisonSearch(Way way) : way_(way) {}

  // Suspects are tested from the first on.
  bool empty() const { return groups_.empty(); }
  uint64_t first() const { return groups_.front().first; }
  uint64_t last() const { return groups_.front().last; }
  bool Suspects(uint64_t ordinal) const {
    return std::any_of(groups_.begin(), groups_.end(),
                       [&](const Group& group) { return group.first <= ordinal && ordinal <= group.last; });
  }

  // The process died with these in flight (ascending, without those done since), and it was no test.
  void OnDeath(const std::vector<OrdinalRange>& under_way) {
    if (way_ == Way::kEachAlone) {
      for (const OrdinalRange& range : under_way) {
        for (uint64_t ordinal = range.first; ordinal <= range.last; ++ordinal) {
          SuspectAlone(ordinal);
        }
      }
      return;
    }
    std::vector<OrdinalRange> again;
    for (const OrdinalRange& a : under_way) {
      for (const OrdinalRange& b : last_) {
        const uint64_t first = std::max(a.first, b.first);
        const uint64_t last = std::min(a.last, b.last);
        if (first <= last) {
          again.push_back({first, last});
        }
      }
    }
    last_ = under_way;
    if (again.empty() || !groups_.empty()) {
      return;
    }
    groups_.push_back({again.front().first, again.back().last, 0, false});
  }

  // The first group was tested and the process died. Returns true if it is one event that has killed often enough.
  // `killed`: from outside.
  bool OnTestDeath(bool killed) {
    Group& group = groups_.front();
    if (group.first == group.last) {
      group.killed |= killed;
      return ++group.kills >= kKills;
    }
    const uint64_t middle = group.first + (group.last - group.first) / 2;
    const Group second{middle + 1, group.last, 0, false};
    group.last = middle;
    groups_.insert(groups_.begin() + 1, second);
    return false;
  }
  // What was found may be innocent.
  bool killed() const { return groups_.front().killed; }
  // Drops the first group: it was tested and did not kill, or the event was found.
  void Drop() {
    groups_.pop_front();
    last_.clear();
  }
  // Everything before `prefix` is done.
  void Pass(uint64_t prefix) {
    while (!groups_.empty() && groups_.front().last < prefix) {
      groups_.pop_front();
    }
    while (!last_.empty() && last_.front().last < prefix) {
      last_.erase(last_.begin());
    }
  }
  // Single suspects for which `waits` returns false are no longer suspected.
  template <typename Fn>
  void Keep(Fn&& waits) {
    std::erase_if(groups_, [&](const Group& group) { return group.first == group.last && !waits(group.first); });
  }
  void Clear() {
    groups_.clear();
    last_.clear();
  }

 private:
  struct Group {
    uint64_t first;
    uint64_t last;
    int kills;
    bool killed;
  };
  void SuspectAlone(uint64_t ordinal) {
    const auto after =
        std::find_if(groups_.begin(), groups_.end(), [&](const Group& group) { return group.first >= ordinal; });
    if (after == groups_.end() || after->first != ordinal) {
      groups_.insert(after, {ordinal, ordinal, 0, false});
    }
  }

  const Way way_;
  std::deque<Group> groups_;        // ascending; tested from the front
  std::vector<OrdinalRange> last_;  // in flight when it died last
};

}  // namespace outbox::relay
