// Records whose order can be checked, and a driver that sends them as an engine does.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kafka_cluster.h"
#include "sink_driver.h"

namespace outbox::sink::kafka {

// `count` records for `keys` keys; bodies are numbers, so that a reader can check their order.
inline std::vector<TestRecord> Numbered(const std::string& topic, int from, int count, int keys,
                                        const std::string& prefix = "key-") {
  std::vector<TestRecord> records;
  for (int i = from; i < from + count; ++i) {
    records.push_back({topic, prefix + std::to_string(i % keys), std::to_string(i), RecordForm::kStream, {}});
  }
  return records;
}
// The numbers that are there, without those of warming up.
inline std::set<int> Numbers(const std::vector<Stored>& stored) {
  std::set<int> numbers;
  for (const Stored& record : stored) {
    if (std::stoi(*record.body) >= 0) {
      numbers.insert(std::stoi(*record.body));
    }
  }
  return numbers;
}

// Per key, first occurrences of the numbers rise, and no number below `count` is missing.
inline void ExpectOrdered(const std::vector<Stored>& stored, int count) {
  std::map<std::string, int> last;
  std::set<int> seen;
  for (const Stored& record : stored) {
    const int number = std::stoi(*record.body);
    if (number < 0 || !seen.insert(number).second) {
      continue;
    }
    auto [entry, fresh] = last.emplace(*record.key, number);
    EXPECT_TRUE(fresh || entry->second < number) << *record.key << ": " << number << " after " << entry->second;
    entry->second = number;
  }
  EXPECT_EQ(static_cast<int>(seen.size()), count);
}

// What an engine does: resubmits what was aborted, in order, under the next epoch, until all is delivered.
class Resender {
 public:
  Resender(Driver* driver, uint32_t flow, std::vector<TestRecord> records)
      : driver_(driver), flow_(flow), records_(std::move(records)), pending_(records_.size()) {
    for (size_t i = 0; i < pending_.size(); ++i) {
      pending_[i] = i;
    }
  }
  // Submits all that is not delivered, in batches; true when something was to be sent.
  bool Send(size_t batch = 50) {
    sent_.clear();
    ++epoch_;
    for (size_t i = 0; i < pending_.size(); i += batch) {
      std::vector<TestRecord> part;
      for (size_t j = i; j < std::min(i + batch, pending_.size()); ++j) {
        part.push_back(records_[pending_[j]]);
      }
      const uint64_t first = driver_->Submit(flow_, epoch_, part);
      for (size_t j = 0; j < part.size(); ++j) {
        sent_.push_back(first + j);
      }
    }
    return !pending_.empty();
  }
  // After everything sent has an outcome. Failed ones count in `failed` and are not sent again.
  void Collect(std::vector<Error>* failed) {
    std::vector<size_t> left;
    for (size_t i = 0; i < sent_.size(); ++i) {
      const Outcome outcome = driver_->outcome(sent_[i]);
      if (outcome == Outcome::kAborted) {
        left.push_back(pending_[i]);
      } else if (outcome == Outcome::kFailed) {
        const Error& error = driver_->error(sent_[i]);
        failed->push_back(error);
        if (error.error_class != ErrorClass::kMessage) {
          left.push_back(pending_[i]);
        }
      }
    }
    pending_ = left;
  }

 private:
  Driver* driver_;
  uint32_t flow_;
  uint32_t epoch_ = 0;
  std::vector<TestRecord> records_;
  std::vector<size_t> pending_;  // positions in records_ that are not delivered
  std::vector<uint64_t> sent_;
};

}  // namespace outbox::sink::kafka
