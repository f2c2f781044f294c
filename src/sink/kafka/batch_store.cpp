#include "sink/kafka/batch_store.h"

#include <algorithm>
#include <utility>

namespace outbox::sink::kafka {

uint32_t BatchStore::Add(Batch batch) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(holds_.size()));
    holds_.push_back(std::make_unique<Hold>());
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  Hold& hold = *holds_[slot];
  hold.state.assign(batch.count, RecordState::kOpen);
  hold.offset.resize(batch.count);
  hold.spot.resize(batch.count);
  hold.spots.clear();
  hold.open = batch.count;
  hold.unreported = 0;
  hold.reported_to = 0;
  hold.waiting_since = 0;
  hold.in_use = true;
  hold.touched = false;
  open_ += batch.count;
  hold.batch = std::move(batch);
  return slot;
}

void BatchStore::Touch(uint32_t slot, Hold* hold) {
  if (!hold->touched) {
    hold->touched = true;
    touched_.push_back(slot);
  }
}

void BatchStore::Resolve(uint32_t slot, uint32_t index, RecordState state) {
  Hold& hold = *holds_[slot];
  if (hold.state[index] != RecordState::kOpen) {
    return;
  }
  hold.state[index] = state;
  --hold.open;
  --open_;
  ++hold.unreported;
  Touch(slot, &hold);
}

uint32_t BatchStore::AddSpot(uint32_t slot, const std::string* topic, int32_t partition) {
  std::vector<Spot>& spots = holds_[slot]->spots;
  spots.push_back({topic, partition, -1, -1, false});
  return static_cast<uint32_t>(spots.size() - 1);
}

void BatchStore::Deliver(uint32_t slot, uint32_t index, uint32_t spot, int64_t offset) {
  Hold& hold = *holds_[slot];
  hold.offset[index] = offset;
  hold.spot[index] = spot;
  Resolve(slot, index, RecordState::kDelivered);
}

// Notes the places of a range of records that is being handed out as delivered.
void BatchStore::NotePlaces(Hold* hold, uint32_t from, uint32_t to) {
  listed_.clear();
  for (uint32_t index = from; index < to; ++index) {
    Spot& spot = hold->spots[hold->spot[index]];
    const int64_t offset = hold->offset[index];
    if (!spot.listed) {
      spot.listed = true;
      spot.first = spot.last = offset;
      listed_.push_back(hold->spot[index]);
    } else {
      spot.first = std::min(spot.first, offset);
      spot.last = std::max(spot.last, offset);
    }
  }
  for (uint32_t number : listed_) {
    Spot& spot = hold->spots[number];
    spot.listed = false;
    Range& range = places_[{hold->batch.flow, spot.topic, spot.partition}];
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
  Hold& hold = *holds_[slot];
  if (hold.state[index] != RecordState::kOpen) {
    return;
  }
  hold.state[index] = RecordState::kReported;
  --hold.open;
  --open_;
  immediate_.push_back({hold.batch.flow, hold.batch.first_seq + index, 1, Outcome::kFailed, std::move(error)});
  Touch(slot, &hold);
}

void BatchStore::Refuse(const Batch& batch) {
  immediate_.push_back({batch.flow, batch.first_seq, batch.count, Outcome::kAborted, {}});
}

void BatchStore::Report(Hold* hold, uint32_t from, uint32_t to, std::vector<Result>* results) {
  for (uint32_t index = from; index < to;) {
    const RecordState state = hold->state[index];
    uint32_t end = index + 1;
    while (end < to && hold->state[end] == state) {
      ++end;
    }
    if (state == RecordState::kDelivered) {
      NotePlaces(hold, index, end);
    }
    if (state == RecordState::kDelivered || state == RecordState::kAborted) {
      results->push_back({hold->batch.flow,
                          hold->batch.first_seq + index,
                          end - index,
                          state == RecordState::kDelivered ? Outcome::kDelivered : Outcome::kAborted,
                          {}});
      std::fill(hold->state.begin() + index, hold->state.begin() + end, RecordState::kReported);
      hold->unreported -= end - index;
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
    Hold& hold = *holds_[slot];
    uint32_t to = hold.reported_to;
    if (hold.open == 0) {
      to = hold.batch.count;
    } else {
      while (hold.state[to] != RecordState::kOpen) {
        ++to;
      }
    }
    if (to > hold.reported_to) {
      Report(&hold, hold.reported_to, to, results);
      hold.reported_to = to;
    }
    if (hold.open == 0) {
      hold.in_use = false;
      hold.batch = Batch();
      free_.push_back(slot);
      continue;
    }
    if (hold.unreported > 0 && hold.waiting_since == 0) {
      hold.waiting_since = now;
    }
    if (hold.unreported > 0 && now - hold.waiting_since >= kGapMicros) {
      Report(&hold, hold.reported_to, hold.batch.count, results);
    }
    if (hold.unreported == 0) {
      hold.waiting_since = 0;
      hold.touched = false;
      continue;
    }
    touched_[kept++] = slot;
  }
  touched_.resize(kept);
}

int64_t BatchStore::deadline() const {
  int64_t first = -1;
  for (uint32_t slot : touched_) {
    const int64_t at = holds_[slot]->waiting_since + kGapMicros;
    first = first < 0 ? at : std::min(first, at);
  }
  return immediate_.empty() ? first : 0;
}

}  // namespace outbox::sink::kafka
