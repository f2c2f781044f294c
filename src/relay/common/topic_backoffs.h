// The topics that parked events were found in trouble with [-]: those are left alone for a while, and tried again.
//
// A topic is in trouble until all of its events that were due have gone: a part of its partitions may take nothing, and
// what the others take says nothing of these.
//
// Single-threaded; owned by a ParkedQueue. Monotonic microseconds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/backoff.h"
#include "relay/common/call_retry.h"
#include "relay/common/turn.h"

namespace outbox::relay {

class TopicBackoffs {
 public:
  // Events of the topic were parked with that error, before any of them was tried. `since`: Unix microseconds.
  void Note(const std::string& topic, const Error& error, int64_t since, const EngineOptions& options) {
    Find(topic, options)->trouble.Note(error, since);
  }
  // One of the claimed events was refused.
  void BackOff(const std::string& topic, const Error& error, const TurnContext& turn) {
    Topic* found = Find(topic, *turn.options);
    if (turn.now >= found->until) {
      found->until = turn.now + found->backoff.Next(turn.clock->Random());
    }
    found->trouble.Note(error, turn.clock->WallMicros());
  }
  void OnDelivered(const std::string& topic) {
    if (const auto found = topics_.find(topic); found != topics_.end()) {
      found->second.until = 0;
      found->second.backoff.Reset();
    }
  }
  // Of each claimed event. `answered`: the topic has taken it, or refused it for its own sake.
  void OnSettled(std::string_view topic, bool answered) {
    if (const auto found = topics_.find(topic); found != topics_.end()) {
      (answered ? found->second.answered : found->second.open) = true;
    }
  }
  // All claimed events are settled.
  void EndClaim() {
    for (auto it = topics_.begin(); it != topics_.end();) {
      Topic& topic = it->second;
      const bool over = topic.answered && !topic.open;
      topic.answered = topic.open = false;
      it = over ? topics_.erase(it) : std::next(it);
    }
  }
  // Nothing of the topics that are not in `without` is due.
  void OnNothingDue(std::vector<std::string> without) {
    if (!topics_.empty()) {
      std::sort(without.begin(), without.end());
      std::erase_if(topics_, [&](const auto& entry) { return !Contains(without, entry.first); });
    }
  }
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
  // What is the matter with a topic, for people. Also while it is being tried again, which may take a while.
  struct Told {
    const std::string* topic = nullptr;
    const Trouble* trouble = nullptr;
    int64_t next_try = 0;  // may be past
  };
  // What is the matter with the topics that are not in `without` (sorted): those in trouble for longest, the longest
  // first, `most` at most.
  std::vector<Told> Longest(const std::vector<std::string>& without, size_t most) const {
    std::vector<Told> told;
    for (const auto& [name, topic] : topics_) {
      if (!Contains(without, name)) {
        told.push_back({&name, &topic.trouble, topic.until});
      }
    }
    const size_t count = std::min(told.size(), most);
    std::partial_sort(told.begin(), told.begin() + static_cast<std::ptrdiff_t>(count), told.end(),
                      [](const Told& a, const Told& b) { return a.trouble->since_unix() < b.trouble->since_unix(); });
    told.resize(count);
    return told;
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
    Trouble trouble;
    bool answered = false;  // something of the claim that is being settled was, and
    bool open = false;      // something was not
  };
  Topic* Find(const std::string& topic, const EngineOptions& options) {
    if (topics_.size() >= kMost && !topics_.contains(topic)) {
      topics_.clear();
    }
    return &topics_.try_emplace(topic, Topic{Backoff(options.backoff_base_micros, options.backoff_cap_micros), 0, {}})
                .first->second;
  }
  static bool Contains(const std::vector<std::string>& sorted, const std::string& name) {
    return std::binary_search(sorted.begin(), sorted.end(), name);
  }

  std::map<std::string, Topic, std::less<>> topics_;
};

}  // namespace outbox::relay
