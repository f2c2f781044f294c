// What happened to a sink since its health was last read [-].
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "sink/sink.h"
#include "sink/went_back.h"

namespace outbox::relay {

// How its processes ended, those that did since the last look.
enum class SinkDeath : uint8_t {
  kNone,           // none has
  kUnready,        // none of them had seen a record
  kUnreadyKilled,  // and all of them were killed from outside
  kKilled,         // those that had seen one were killed from outside
  kDied,
};

inline bool HadRecords(SinkDeath death) {
  return death >= SinkDeath::kKilled;
}

class SinkWatch {
 public:
  // Another sink.
  void Begin(const sink::Health& now) {
    was_up_ = true;
    changes_ = now.changes;
    deaths_ = now.deaths;
    unready_ = now.unready_deaths;
    kills_ = now.kills;
    unready_kills_ = now.unready_kills;
    lost_.clear();
  }
  // Returns true once after it went from down to up (or down and up between two calls). `held`: something else keeps it
  // from being used.
  bool TakeRecovered(const sink::Health& now, bool held = false) {
    const bool up = now.up && !held;
    const bool recovered = up && (!was_up_ || now.changes >= changes_ + 2);
    was_up_ = up;
    changes_ = now.changes;
    return recovered;
  }
  SinkDeath TakeDeath(const sink::Health& now) {
    const uint64_t died = now.deaths - std::exchange(deaths_, now.deaths);
    const uint64_t before = now.unready_deaths - std::exchange(unready_, now.unready_deaths);
    const uint64_t kills = now.kills - std::exchange(kills_, now.kills);
    const uint64_t unready_kills = now.unready_kills - std::exchange(unready_kills_, now.unready_kills);
    total_deaths_ += died;
    return died == 0                ? SinkDeath::kNone
           : unready_kills == died  ? SinkDeath::kUnreadyKilled
           : before == died         ? SinkDeath::kUnready
           : before + kills == died ? SinkDeath::kKilled
                                    : SinkDeath::kDied;
  }
  // What it has found lost, once for each; else nullptr.
  const Error* TakeLost(const sink::Health& now) {
    if (now.warning.code != sink::kOffsetsWentBack || now.warning.message == lost_) {
      return nullptr;
    }
    lost_ = now.warning.message;
    return &now.warning;
  }
  // As TakeDeath() has counted them, of all sinks that were watched.
  uint64_t total_deaths() const { return total_deaths_; }

 private:
  bool was_up_ = true;
  uint64_t changes_ = 0;
  uint64_t deaths_ = 0;
  uint64_t unready_ = 0;
  uint64_t kills_ = 0;
  uint64_t unready_kills_ = 0;
  uint64_t total_deaths_ = 0;
  std::string lost_;
};

}  // namespace outbox::relay
