// Drives a Sink in tests as its owner does: waits for what it waits for, polls, and keeps every record's outcome.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/monotonic.h"
#include "sink/record.h"
#include "sink/sink.h"

namespace outbox::sink {

struct TestRecord {
  std::string topic;
  std::string key;  // "": none
  std::string body;
  RecordForm form = RecordForm::kStream;
  std::vector<std::pair<std::string, std::string>> fields;
  int32_t partition = Record::kByKey;
};

inline void Pack(const TestRecord& from, std::string* out) {
  Record record;
  record.form = from.form;
  record.partition = from.partition;
  record.topic = from.topic;
  record.key = from.key.empty() ? std::string_view() : std::string_view(from.key);
  record.body = from.body;
  for (const auto& [name, value] : from.fields) {
    record.fields.push_back({name, value});
  }
  ASSERT_TRUE(PackRecord(record, out));
}

class Driver {
 public:
  explicit Driver(Sink* sink) : sink_(sink) {}

  // Returns the first number used.
  uint64_t Submit(uint32_t flow, uint32_t epoch, const std::vector<TestRecord>& records) {
    std::string packed;
    for (const TestRecord& record : records) {
      Pack(record, &packed);
    }
    return SubmitPacked(flow, epoch, static_cast<uint32_t>(records.size()), std::move(packed));
  }
  uint64_t SubmitPacked(uint32_t flow, uint32_t epoch, uint32_t count, std::string packed) {
    uint64_t first = next_;
    next_ += count;
    sink_->Submit({flow, epoch, first, count, std::move(packed)});
    return first;
  }

  // One turn, waiting at most `limit` microseconds.
  void Turn(int64_t limit = 20000) {
    std::vector<WaitSpec> waits;
    sink_->AppendWaits(&waits);
    std::vector<pollfd> polls;
    int64_t wait = limit;
    for (const WaitSpec& spec : waits) {
      if (spec.fd >= 0) {
        polls.push_back({spec.fd, static_cast<short>((spec.read ? POLLIN : 0) | (spec.write ? POLLOUT : 0)), 0});
      }
      if (spec.deadline >= 0) {
        wait = std::clamp<int64_t>(spec.deadline - MonotonicMicros(), 0, wait);
      }
    }
    poll(polls.data(), polls.size(), static_cast<int>((wait + 999) / 1000));
    std::vector<Result> results;
    sink_->Poll(&results);
    sink_->TakePlaces(&places_);
    for (const Result& result : results) {
      for (uint32_t i = 0; i < result.count; ++i) {
        auto [entry, fresh] = outcomes_.emplace(result.first_seq + i, result);
        EXPECT_TRUE(fresh) << "record " << result.first_seq + i << " has two outcomes";
        EXPECT_LT(result.first_seq + i, next_);
        order_.push_back(result.first_seq + i);
      }
    }
  }

  // Turns until `done` says so; false after `seconds`.
  bool Until(const std::function<bool()>& done, double seconds = 30) {
    int64_t end = MonotonicMicros() + static_cast<int64_t>(seconds * 1e6);
    while (!done()) {
      if (MonotonicMicros() > end) {
        return false;
      }
      Turn();
    }
    return true;
  }
  bool UntilResolved(double seconds = 30) {
    return Until([this] { return outcomes_.size() == next_; }, seconds);
  }

  Outcome outcome(uint64_t seq) const {
    auto found = outcomes_.find(seq);
    return found == outcomes_.end() ? Outcome{} : found->second.outcome;
  }
  const Error& error(uint64_t seq) const { return outcomes_.at(seq).error; }
  bool unsent(uint64_t seq) const { return outcomes_.at(seq).unsent; }
  size_t Count(Outcome outcome) const {
    return static_cast<size_t>(std::count_if(outcomes_.begin(), outcomes_.end(),
                                             [&](const auto& entry) { return entry.second.outcome == outcome; }));
  }
  // All that the sink has told, turn by turn.
  const std::vector<Place>& places() const { return places_; }
  const std::vector<uint64_t>& order() const { return order_; }  // in which outcomes came
  size_t resolved() const { return outcomes_.size(); }
  uint64_t submitted() const { return next_; }

 private:
  Sink* sink_;
  uint64_t next_ = 0;
  std::map<uint64_t, Result> outcomes_;
  std::vector<Place> places_;
  std::vector<uint64_t> order_;
};

}  // namespace outbox::sink
