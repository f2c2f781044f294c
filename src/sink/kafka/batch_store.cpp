#include "sink/kafka/batch_store.h"

#include <algorithm>
#include <utility>

namespace outbox::sink::kafka {
namespace {

bool IsAborted(RecordState state) {
  return state == RecordState::kAborted || state == RecordState::kAbortedUnsent;
}

}  // namespace

uint32_t BatchStore::Add(Batch batch) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(batches_.size()));
    batches_.push_back(std::make_unique<StoredBatch>());
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  StoredBatch& stored = *batches_[slot];
  stored.state.assign(batch.count, RecordState::kOpen);
  stored.offset.resize(batch.count);
  stored.spot.resize(batch.count);
  stored.spots.clear();
  stored.open = batch.count;
  stored.unreported = 0;
  stored.reported_to = 0;
  stored.waiting_since = 0;
  stored.use = StoredBatch::Use::kQuiet;
  open_ += batch.count;
  stored.batch = std::move(batch);
  return slot;
}

void BatchStore::Touch(uint32_t slot, StoredBatch* stored) {
  if (stored->use != StoredBatch::Use::kTouched) {
    stored->use = StoredBatch::Use::kTouched;
    touched_.push_back(slot);
  }
}

void BatchStore::Resolve(uint32_t slot, uint32_t index, RecordState state) {
  StoredBatch& stored = *batches_[slot];
  if (!IsOpen(stored.state[index])) {
    return;
  }
  const bool unsent = state == RecordState::kAborted && stored.state[index] == RecordState::kOpenUnsent;
  stored.state[index] = unsent ? RecordState::kAbortedUnsent : state;
  --stored.open;
  --open_;
  ++stored.unreported;
  Touch(slot, &stored);
}

void BatchStore::Unsent(uint32_t slot, uint32_t index) {
  RecordState& state = batches_[slot]->state[index];
  if (state == RecordState::kOpen) {
    state = RecordState::kOpenUnsent;
  }
}

uint32_t BatchStore::AddSpot(uint32_t slot, const std::string* topic, int32_t partition) {
  std::vector<Spot>& spots = batches_[slot]->spots;
  spots.push_back({topic, partition, -1, -1, false});
  return static_cast<uint32_t>(spots.size() - 1);
}

void BatchStore::Deliver(uint32_t slot, uint32_t index, uint32_t spot, int64_t offset) {
  StoredBatch& stored = *batches_[slot];
  stored.offset[index] = offset;
  stored.spot[index] = spot;
  Resolve(slot, index, RecordState::kDelivered);
}

// Notes the places of a range of records that is being handed out as delivered.
void BatchStore::NotePlaces(StoredBatch* stored, uint32_t from, uint32_t to) {
  listed_.clear();
  for (uint32_t index = from; index < to; ++index) {
    Spot& spot = stored->spots[stored->spot[index]];
    const int64_t offset = stored->offset[index];
    if (!spot.listed) {
      spot.listed = true;
      spot.first = spot.last = offset;
      listed_.push_back(stored->spot[index]);
    } else {
      spot.first = std::min(spot.first, offset);
      spot.last = std::max(spot.last, offset);
    }
  }
  for (uint32_t number : listed_) {
    Spot& spot = stored->spots[number];
    spot.listed = false;
    Range& range = places_[{stored->batch.flow, spot.topic, spot.partition}];
    if (spot.first >= 0) {  // either all records of a spot have an offset, or none has
      range.first = range.first < 0 ? spot.first : std::min(range.first, spot.first);
      range.last = std::max(range.last, spot.last);
    }
  }
}

void BatchStore::TakePlaces(std::vector<Place>* places) {
  for (const auto& [key, range] : places_) {
    const auto& [flow, topic, partition] = key;
    const bool known = range.first >= 0;
    places->push_back({flow, *topic, partition, known ? std::to_string(range.first) : std::string(),
                       known ? std::to_string(range.last) : std::string()});
  }
  places_.clear();
}

void BatchStore::Fail(uint32_t slot, uint32_t index, Error error) {
  StoredBatch& stored = *batches_[slot];
  if (!IsOpen(stored.state[index])) {
    return;
  }
  stored.state[index] = RecordState::kReported;
  --stored.open;
  --open_;
  immediate_.push_back({stored.batch.flow, stored.batch.first_seq + index, 1, Outcome::kFailed, std::move(error)});
  Touch(slot, &stored);
}

void BatchStore::Refuse(const Batch& batch) {
  immediate_.push_back({batch.flow, batch.first_seq, batch.count, Outcome::kAborted, {}, true});
}

void BatchStore::Report(StoredBatch* stored, uint32_t from, uint32_t to, std::vector<Result>* results) {
  for (uint32_t index = from; index < to;) {
    const RecordState state = stored->state[index];
    uint32_t end = index + 1;
    while (end < to && stored->state[end] == state) {
      ++end;
    }
    if (state == RecordState::kDelivered) {
      NotePlaces(stored, index, end);
    }
    if (state == RecordState::kDelivered || IsAborted(state)) {
      results->push_back({stored->batch.flow,
                          stored->batch.first_seq + index,
                          end - index,
                          state == RecordState::kDelivered ? Outcome::kDelivered : Outcome::kAborted,
                          {},
                          state == RecordState::kAbortedUnsent});
      std::fill(stored->state.begin() + index, stored->state.begin() + end, RecordState::kReported);
      stored->unreported -= end - index;
    }
    index = end;
  }
}

void BatchStore::Flush(int64_t now, std::vector<Result>* results) {
  results->insert(results->end(), std::make_move_iterator(immediate_.begin()),
                  std::make_move_iterator(immediate_.end()));
  immediate_.clear();
  size_t kept = 0;
  for (uint32_t slot : touched_) {
    StoredBatch& stored = *batches_[slot];
    uint32_t to = stored.reported_to;
    if (stored.open == 0) {
      to = stored.batch.count;
    } else {
      while (!IsOpen(stored.state[to])) {
        ++to;
      }
    }
    if (to > stored.reported_to) {
      Report(&stored, stored.reported_to, to, results);
      stored.reported_to = to;
    }
    if (stored.open == 0) {
      stored.use = StoredBatch::Use::kFree;
      stored.batch = Batch();
      free_.push_back(slot);
      continue;
    }
    if (stored.unreported > 0 && stored.waiting_since == 0) {
      stored.waiting_since = now;
    }
    if (stored.unreported > 0 && now - stored.waiting_since >= kGapMicros) {
      Report(&stored, stored.reported_to, stored.batch.count, results);
    }
    if (stored.unreported == 0) {
      stored.waiting_since = 0;
      stored.use = StoredBatch::Use::kQuiet;
      continue;
    }
    touched_[kept++] = slot;
  }
  touched_.resize(kept);
}

int64_t BatchStore::deadline() const {
  int64_t first = -1;
  for (uint32_t slot : touched_) {
    const int64_t at = batches_[slot]->waiting_since + kGapMicros;
    first = first < 0 ? at : std::min(first, at);
  }
  return immediate_.empty() ? first : 0;
}

}  // namespace outbox::sink::kafka
