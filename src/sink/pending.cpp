#include "sink/pending.h"

#include <algorithm>
#include <iterator>

namespace outbox::sink {

void PendingRecords::Add(uint32_t flow, uint32_t epoch, uint64_t first_seq, uint32_t count) {
  if (count != 0) {
    batches_[first_seq] = Batch{flow, epoch, count, 0, 0, {}};
    records_ += count;
  }
}

bool PendingRecords::Has(uint32_t flow, uint64_t first_seq, uint32_t count) const {
  while (count != 0) {
    const auto found = batches_.upper_bound(first_seq);
    if (found == batches_.begin()) {
      return false;
    }
    const auto& [first, batch] = *std::prev(found);
    if (batch.flow != flow || first_seq - first >= batch.count) {
      return false;
    }
    const auto begin = static_cast<uint32_t>(first_seq - first);
    const uint32_t end = begin + std::min(count, batch.count - begin);
    for (uint32_t i = begin; i < end; ++i) {
      if (batch.Done(i)) {
        return false;
      }
    }
    first_seq += end - begin;
    count -= end - begin;
  }
  return true;
}

bool PendingRecords::Resolve(uint32_t flow, uint64_t first_seq, uint32_t count, uint32_t* epoch) {
  if (!Has(flow, first_seq, count)) {
    return false;
  }
  while (count != 0) {
    auto found = std::prev(batches_.upper_bound(first_seq));
    Batch& batch = found->second;
    auto begin = static_cast<uint32_t>(first_seq - found->first);
    uint32_t end = begin + std::min(count, batch.count - begin);
    *epoch = batch.epoch;
    if (begin == batch.done_to) {
      batch.done_to = end;
      while (batch.done_later != 0 && batch.done_to < batch.count && batch.later[batch.done_to]) {
        ++batch.done_to;
        --batch.done_later;
      }
    } else {
      batch.later.resize(batch.count);
      std::fill(batch.later.begin() + begin, batch.later.begin() + end, true);
      batch.done_later += end - begin;
    }
    if (batch.done_to == batch.count) {
      batches_.erase(found);
    }
    records_ -= end - begin;
    first_seq += end - begin;
    count -= end - begin;
  }
  return true;
}

}  // namespace outbox::sink
