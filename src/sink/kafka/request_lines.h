// How many produce requests are on their way to each broker, about, and which records had better wait for one of them
// [-].
//
// Why: the library has five requests at a time on their way to a broker (max.in.flight of an idempotent producer),
// forms five more and, with records left, asks poll() again and again until one is answered: at thousands of records a
// second, each alone or nearly, in three quarters of its time (docs/performance.md). Records that would be one more
// small request wait here instead, go together when one of the others has been answered, and are no later for it. Where
// requests are large the line is never full: a backlog goes as fast as the library takes it.
//
// What one round hands over for one partition counts as a request. The library may make two of it, or one of two; once
// nothing of a partition is on its way its count is right again.
//
// Single-threaded. Owned by the sink; partitions are its topics' and give back what they have before they go.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace outbox::sink::kafka {

// A partition's part in its broker's line.
struct PartitionRequests {
  int32_t broker = -1;  // that the others below are counted at; -1: not known yet
  uint32_t requests = 0;
  uint32_t records = 0;
  uint64_t round = 0;  // of the newest request
};

class RequestLines {
 public:
  // What is handed over from here on is another request.
  void BeginRound() { ++round_; }

  bool Holds(const PartitionRequests& part) const {
    if (part.round == round_) {
      return false;  // it goes along
    }
    const auto line = lines_.find(part.broker);
    return line != lines_.end() && line->second.requests >= kFull &&
           line->second.records < line->second.requests * kSmall;
  }
  void Sent(PartitionRequests* part) {
    Line& line = lines_[part->broker];
    if (part->round != round_) {
      part->round = round_;
      ++part->requests;
      ++line.requests;
    }
    ++part->records;
    ++line.records;
  }
  // A request of so many records was answered, by that broker (-1: it is not known); `left`: records of the partition
  // that are on their way still.
  void Answered(PartitionRequests* part, uint32_t records, uint32_t left, int32_t broker) {
    Take(part, left == 0 ? part->requests : std::min(part->requests, 1u), left == 0 ? part->records : records);
    if (broker >= 0 && broker != part->broker) {
      const PartitionRequests moved = *part;
      Take(part, part->requests, part->records);
      Line& line = lines_[broker];
      line.requests += moved.requests;
      line.records += moved.records;
      *part = {broker, moved.requests, moved.records, moved.round};
    }
  }
  void Clear() { lines_.clear(); }

 private:
  static constexpr uint32_t kFull = 5;    // requests: max.in.flight.requests.per.connection
  static constexpr uint32_t kSmall = 50;  // records a request, of all that are on their way

  struct Line {
    uint32_t requests = 0;
    uint32_t records = 0;
  };

  void Take(PartitionRequests* part, uint32_t requests, uint32_t records) {
    Line& line = lines_[part->broker];
    records = std::min(records, part->records);
    part->requests -= requests;
    part->records -= records;
    line.requests -= requests;
    line.records -= records;
  }

  uint64_t round_ = 1;
  std::unordered_map<int32_t, Line> lines_;  // by broker
};

}  // namespace outbox::sink::kafka
