#include "sink/redis/record_outcomes.h"

#include "sink/protocol.h"
#include "sink/redis/errors.h"

namespace outbox::sink {

bool Outcomes::AdmitsBatch(const Batch& batch) {
  const bool admitted = gate_.Admits(batch.flow, batch.epoch);
  if (!admitted) {
    AppendResult({batch.flow, batch.first_seq, batch.count, Outcome::kAborted, {}, true}, &results_);
  }
  return admitted;
}

void Outcomes::FailUnsent(const Batch& batch, uint32_t index, Error error) {
  const uint64_t seq = batch.first_seq + index;
  results_.push_back({batch.flow, seq, 1, Outcome::kFailed, std::move(error)});
  gate_.Poison(batch.flow, batch.epoch);
  if (index + 1 < batch.count) {
    AppendResult({batch.flow, seq + 1, batch.count - index - 1, Outcome::kAborted, {}, true}, &results_);
  }
}

void Outcomes::Delivered(const Target& target, std::span<const Entry> entries, std::string_view first,
                         std::string_view last) {
  delivered_ += entries.size();
  if (!entries.empty() && !puzzles_.empty()) {
    puzzles_.erase({target.form, target.name});
  }
  if (StreamId id; ParseStreamId(last, &id)) {
    stream_.assign(target.name);
    if (newest_.id < id) {
      newest_.id = id;
      newest_.stream = stream_;
    }
  }
  for (size_t i = 0; i < entries.size();) {
    const Entry& begin = entries[i];
    if (i == 0 || entries[i - 1].flow != begin.flow) {
      places_.Add(begin.flow, target.name, -1, first, last);
    }
    uint32_t count = 1;
    while (i + count < entries.size() && entries[i + count].flow == begin.flow &&
           entries[i + count].seq == begin.seq + count) {
      ++count;
    }
    AppendResult({begin.flow, begin.seq, count, Outcome::kDelivered, {}}, &results_);
    i += count;
  }
}

void Outcomes::Aborted(const Entry& entry, bool unsent) {
  gate_.Poison(entry.flow, entry.epoch);
  AppendResult({entry.flow, entry.seq, 1, Outcome::kAborted, {}, unsent}, &results_);
}

void Outcomes::Failed(const Target& target, const Entry& entry, Error error) {
  if (IsCapped(error) && ++puzzles_[{target.form, target.name}] > kCappedReplies) {
    error.error_class = ErrorClass::kTopic;
  }
  // A record whose flow was stopped elsewhere meanwhile is not asked about: it goes again in any case.
  if (!Admits(entry)) {
    Aborted(entry, true);
    return;
  }
  results_.push_back({entry.flow, entry.seq, 1, Outcome::kFailed, std::move(error)});
  gate_.Poison(entry.flow, entry.epoch);
}

void Outcomes::TakeResults(std::vector<Result>* results) {
  for (Result& result : results_) {
    AppendResult(std::move(result), results);
  }
  results_.clear();
}

void Outcomes::Clear() {
  results_.clear();
  places_.Clear();
}

}  // namespace outbox::sink
