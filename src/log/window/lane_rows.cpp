#include "log/window/lane_rows.h"

#include <algorithm>

namespace outbox::log {

namespace {

constexpr const char* kSpillDirectory = "base/pgsql_tmp";  // servers run in their data directory; emptied at start

bool Earlier(const RowLocation& a, const RowLocation& b) {
  return a.created_at < b.created_at;
}

}  // namespace

Event CopyEvent(const Event& event, Arena* arena) {
  auto copy = [arena](std::string_view bytes) { return IsNull(bytes) ? bytes : arena->Copy(bytes); };
  Event result = event;
  result.aggregate_type = copy(event.aggregate_type);
  result.aggregate_id = copy(event.aggregate_id);
  result.event_type = copy(event.event_type);
  result.payload = copy(event.payload);
  result.content_type = copy(event.content_type);
  result.headers.packed = copy(event.headers.packed);
  result.topic = copy(event.topic);
  return result;
}

LaneRows::LaneRows(size_t memory, size_t sort_memory, Budget* budget, size_t own_bytes)
    : memory_(memory), sort_memory_(sort_memory), budget_(budget), own_bytes_(own_bytes) {
  Charge();
}

LaneRows::~LaneRows() {
  if (budget_ != nullptr) {
    budget_->held -= charged_;
  }
}

void LaneRows::ToLocations() {
  sorted_ = std::make_unique<SortedSpill>(kSpillDirectory, sort_memory_);
  for (const RowLocation& location : locations_) {
    sorted_->Add(location);
  }
  buffered_ = EventChunk();
  buffered_bytes_ = 0;
  std::vector<RowLocation>().swap(locations_);
}

void LaneRows::Finish() {
  if (finished_) {
    return;
  }
  if (sorted_ != nullptr) {
    sorted_->Finish();
    finished_ = true;
    Charge();
    return;
  }
  finished_ = true;
  for (size_t i = 0; i < locations_.size(); i++) {
    locations_[i].location = i;
  }
  if (!std::is_sorted(locations_.begin(), locations_.end(), Earlier)) {
    std::sort(locations_.begin(), locations_.end(), Earlier);
  }
}

void LaneRows::MoveEvents(EventChunk* chunk) {
  chunk->events.reserve(locations_.size());
  for (size_t i = 0; i < locations_.size(); i++) {
    chunk->events.push_back(event(i));
  }
  chunk->arena = std::move(buffered_.arena);
}

void LaneRows::Free() {
  buffered_ = EventChunk();
  std::vector<RowLocation>().swap(locations_);
  buffered_bytes_ = 0;
  sorted_.reset();
  delayed_.Clear();
  Charge();
}

}  // namespace outbox::log
