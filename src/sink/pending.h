// Which records have no outcome yet [-], by number; outcomes may come in any order.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace outbox::sink {

class PendingRecords {
 public:
  // Numbers are never used twice.
  void Add(uint32_t flow, uint32_t epoch, uint64_t first_seq, uint32_t count);
  // Returns false, and changes nothing, if a record is not pending or belongs to another flow.
  // `*epoch` is that of the last record.
  bool Resolve(uint32_t flow, uint64_t first_seq, uint32_t count, uint32_t* epoch);
  bool empty() const { return batches_.empty(); }
  uint64_t records() const { return records_; }  // not resolved
  void Clear() {
    batches_.clear();
    records_ = 0;
  }

  // fn(flow, epoch, first_seq, count) for runs of pending records, ascending.
  template <typename Fn>
  void ForEach(Fn fn) const {
    for (const auto& [first_seq, batch] : batches_) {
      uint32_t begin = batch.done_to;
      for (uint32_t i = batch.done_to; i <= batch.count; ++i) {
        if (i == batch.count || batch.Done(i)) {
          if (i > begin) {
            fn(batch.flow, batch.epoch, first_seq + begin, i - begin);
          }
          begin = i + 1;
        }
      }
    }
  }

 private:
  bool Has(uint32_t flow, uint64_t first_seq, uint32_t count) const;

  struct Batch {
    uint32_t flow = 0;
    uint32_t epoch = 0;
    uint32_t count = 0;
    uint32_t done_to = 0;     // all before are resolved
    uint32_t done_later = 0;  // and so many after
    std::vector<bool> later;  // which; empty while outcomes come in order
    bool Done(uint32_t i) const { return i < done_to || (!later.empty() && later[i]); }
  };
  std::map<uint64_t, Batch> batches_;  // by first_seq
  uint64_t records_ = 0;
};

}  // namespace outbox::sink
