// The topics whose parked events are left alone for a while [-], because an attempt has found them in trouble.
//
// Single-threaded; owned by a ParkedQueue. Monotonic microseconds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "relay/turn.h"

namespace outbox::relay {

class TopicBackoffs {
 public:
  void BackOff(const std::string& topic, const TurnContext& turn) {
    if (topics_.size() >= kMost) {
      topics_.clear();
    }
    const EngineOptions& options = *turn.options;
    auto [found, fresh] =
        topics_.try_emplace(topic, Topic{Backoff(options.backoff_base_micros, options.backoff_cap_micros)});
    if (fresh || turn.now >= found->second.until) {
      found->second.until = turn.now + found->second.backoff.Next(turn.clock->Random());
    }
  }
  void OnDelivered(const std::string& topic) { topics_.erase(topic); }
  // The destination is up: all may be tried.
  void EndAll() {
    for (auto& [name, topic] : topics_) {
      topic.until = 0;
    }
  }
  bool BacksOff(const std::string& topic, int64_t now) const {
    const auto found = topics_.find(topic);
    return found != topics_.end() && now < found->second.until;
  }
  // Appends those that back off; returns when the first of them may be tried, or kNever.
  int64_t Append(int64_t now, std::vector<std::string>* names) const {
    int64_t next = kNever;
    for (const auto& [name, topic] : topics_) {
      if (now < topic.until) {
        names->push_back(name);
        next = std::min(next, topic.until);
      }
    }
    return next;
  }

 private:
  static constexpr size_t kMost = 1024;  // more are forgotten, and tried

  struct Topic {
    Backoff backoff;
    int64_t until = 0;
  };
  std::map<std::string, Topic> topics_;
};

}  // namespace outbox::relay
