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
#include "relay/common/call_retry.h"
#include "relay/common/turn.h"

namespace outbox::relay {

class TopicBackoffs {
 public:
  void BackOff(const std::string& topic, const Error& error, const TurnContext& turn) {
    if (topics_.size() >= kMost) {
      topics_.clear();
    }
    const EngineOptions& options = *turn.options;
    auto [found, fresh] =
        topics_.try_emplace(topic, Topic{Backoff(options.backoff_base_micros, options.backoff_cap_micros), 0, {}});
    if (fresh || turn.now >= found->second.until) {
      found->second.until = turn.now + found->second.backoff.Next(turn.clock->Random());
    }
    found->second.trouble.Note(error, turn.clock->WallMicros());
  }
  void OnDelivered(const std::string& topic) { topics_.erase(topic); }
  // The destination is up: all may be tried.
  void EndAll() {
    for (auto& [name, topic] : topics_) {
      topic.until = 0;
    }
  }
  // What a topic that backs off was refused with; nullptr: it does not.
  const Error* ErrorOf(const std::string& topic, int64_t now) const {
    const auto found = topics_.find(topic);
    return found != topics_.end() && now < found->second.until ? &found->second.trouble.error() : nullptr;
  }
  // What is the matter with the topic that has been in trouble for longest, for people; nullptr: nothing. Also while it
  // is being tried again, which may take a while. *next_try: when it is tried next; may be past.
  const Trouble* Worst(int64_t now, int64_t* next_try) const {
    const Topic* worst = nullptr;
    for (const auto& [name, topic] : topics_) {
      if (topic.until != 0 && now < topic.until + kTried &&
          (worst == nullptr || topic.trouble.since_unix() < worst->trouble.since_unix())) {
        worst = &topic;
      }
    }
    if (worst == nullptr) {
      return nullptr;
    }
    *next_try = worst->until;
    return &worst->trouble;
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
  static constexpr size_t kMost = 1024;          // more are forgotten, and tried
  static constexpr int64_t kTried = 30'000'000;  // a try has had its answer by then, or there was nothing to try

  struct Topic {
    Backoff backoff;
    int64_t until = 0;
    Trouble trouble;
  };
  std::map<std::string, Topic> topics_;
};

}  // namespace outbox::relay
