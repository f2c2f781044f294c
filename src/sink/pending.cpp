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

bool PendingRecords::Resolve(uint32_t flow, uint64_t first_seq, uint32_t count, uint32_t* epoch) {
  while (count != 0) {
    auto found = batches_.upper_bound(first_seq);
    if (found == batches_.begin()) {
      return false;
    }
    --found;
    Batch& batch = found->second;
    if (batch.flow != flow || first_seq - found->first >= batch.count) {
      return false;
    }
    auto begin = static_cast<uint32_t>(first_seq - found->first);
    uint32_t end = begin + std::min(count, batch.count - begin);
    for (uint32_t i = begin; i < end; ++i) {
      if (batch.Done(i)) {
        return false;
      }
    }
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
