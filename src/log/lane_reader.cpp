#include "log/lane_reader.h"

#include <algorithm>

#include "log/blank.h"

namespace outbox::log {

namespace {

constexpr const char* kSpillDirectory = "base/pgsql_tmp";  // servers run in their data directory; emptied at start

bool Earlier(const RowLocation& a, const RowLocation& b) {
  return a.created_at < b.created_at;
}

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

}  // namespace

class LaneReader::Collector final : public RowVisitor {
 public:
  explicit Collector(LaneReader* reader) : reader_(reader) {}

  void Row(const RowView& row, uint64_t location) override {
    LaneReader& to = *reader_;
    to.saw_rows_ = true;
    if (to.all_ != nullptr) {
      Keep(row, to.all_);
    }
    if (!RowWanted(row, to.filter_)) {
      return;
    }
    if (to.sorted_ != nullptr) {
      to.sorted_->Add({row.created_at, location});
      return;
    }
    size_t bytes = RowBytes(row) + sizeof(RowLocation);
    if (to.buffered_bytes_ + bytes > to.memory_ / 4 && !to.locations_.empty()) {
      ToLocations();
      to.sorted_->Add({row.created_at, location});
      return;
    }
    to.buffered_bytes_ += bytes;
    to.buffered_.events.emplace_back();
    CopyRow(row, &to.buffered_.arena, &to.buffered_.events.back());
    to.locations_.push_back({row.created_at, location});
  }

 private:
  static void Keep(const RowView& row, WindowRows* all) {
    all->See();
    if (all->complete() && !RowForgotten(row)) {
      Event* event = all->Add(RowBytes(row));
      if (event != nullptr) {
        CopyRow(row, all->arena(), event);
      }
    }
  }

  // The window turns out to be large: keeps only the locations of its rows.
  void ToLocations() {
    LaneReader& to = *reader_;
    to.sorted_ = std::make_unique<SortedSpill>(kSpillDirectory, to.memory_ / 2);
    for (const RowLocation& location : to.locations_) {
      to.sorted_->Add(location);
    }
    to.buffered_ = EventChunk();
    to.buffered_bytes_ = 0;
    std::vector<RowLocation>().swap(to.locations_);
  }

  LaneReader* reader_;
};

LaneReader::LaneReader(const EventFilter* filter, size_t memory) : filter_(filter), memory_(memory) {}
LaneReader::~LaneReader() = default;

void LaneReader::Open(const Snapshot& from, const Snapshot& to, int64_t after, WindowRows* all) {
  Close();
  window_.Set(from, to);
  after_ = after;
  saw_rows_ = false;
  all_ = all;
  state_ = State::kOpened;
}

void LaneReader::OpenKnown(const Snapshot& from, const Snapshot& to, const WindowRows& all) {
  Open(from, to, kBeforeAllTime);
  saw_rows_ = all.seen();
  for (const Event& event : all.events()) {
    if (filter_->Wants(event.aggregate_type, event.aggregate_id, event.event_type, event.id, event.topic)) {
      buffered_bytes_ += event.bytes() + sizeof(RowLocation);
      locations_.push_back({event.created_at, buffered_.events.size()});
      buffered_.events.push_back(CopyEvent(event, &buffered_.arena));
    }
  }
  FinishCollecting();
}

void LaneReader::Close() {
  Forget();
  state_ = State::kClosed;
}

void LaneReader::Forget() {
  scan_ = ScanState();
  all_ = nullptr;
  buffered_ = EventChunk();
  locations_.clear();
  buffered_bytes_ = 0;
  next_ = 0;
  sorted_.reset();
  fetched_.clear();
}

bool LaneReader::Collect(size_t budget) {
  if (state_ == State::kOpened) {
    days::LogTableList* list = days::CurrentLogTables();
    days::JudgeLogTables(list);
    leaves_ = *list;
    state_ = State::kCollecting;
  }
  if (state_ != State::kCollecting) {
    return true;
  }
  Collector collector(this);
  Scanned scanned = ScanWindow(window_, after_, leaves_, budget, &scan_, &collector);
  all_ = nullptr;
  changed_ = scanned == Scanned::kRewritten;
  if (scanned == Scanned::kAll) {
    FinishCollecting();
  }
  return !changed_;
}

void LaneReader::FinishCollecting() {
  if (sorted_ != nullptr) {
    sorted_->Finish();
    state_ = State::kLocations;
    return;
  }
  for (size_t i = 0; i < locations_.size(); i++) {
    locations_[i].location = i;
  }
  if (!std::is_sorted(locations_.begin(), locations_.end(), Earlier)) {
    std::sort(locations_.begin(), locations_.end(), Earlier);
  }
  state_ = State::kEvents;
}

bool LaneReader::Fetch(size_t max_bytes, EventChunk* chunk) {
  chunk_before_ = chunk->events.size();
  fetched_used_ = 0;
  changed_ = false;
  if (state_ == State::kEvents) {
    FetchEvents(max_bytes, chunk);
  } else if (state_ == State::kLocations) {
    changed_ = !FetchRows(max_bytes, chunk);
  }
  return !changed_;
}

void LaneReader::FetchEvents(size_t max_bytes, EventChunk* chunk) {
  // The usual case, a handful of events: their bytes move and are not copied.
  if (next_ == 0 && chunk_before_ == 0 && buffered_bytes_ <= max_bytes) {
    chunk->events.reserve(locations_.size());
    for (const RowLocation& location : locations_) {
      chunk->events.push_back(buffered_.events[location.location]);
    }
    chunk->arena = std::move(buffered_.arena);
    return;
  }
  size_t bytes = 0;
  for (size_t i = next_; i < locations_.size() && (bytes == 0 || bytes < max_bytes); i++) {
    const Event& event = buffered_.events[locations_[i].location];
    chunk->events.push_back(CopyEvent(event, &chunk->arena));
    bytes += event.bytes();
  }
}

bool LaneReader::FetchRows(size_t max_bytes, EventChunk* chunk) {
  MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "outbox rows", ALLOCSET_DEFAULT_SIZES);
  row_reader_.Start();
  bool found = true;
  for (size_t bytes = 0; bytes == 0 || bytes < max_bytes; fetched_used_++) {
    if (fetched_used_ == fetched_.size()) {
      RowLocation next;
      if (!sorted_->Next(&next)) {
        break;
      }
      fetched_.push_back(next);
    }
    CHECK_FOR_INTERRUPTS();
    RowView row;
    found = row_reader_.Read(fetched_[fetched_used_], &row);
    if (!found) {
      break;
    }
    if (RowForgotten(row)) {
      continue;  // the row went after its location was noted
    }
    MemoryContext saved = MemoryContextSwitchTo(scratch);
    chunk->events.emplace_back();
    CopyRow(row, &chunk->arena, &chunk->events.back());
    MemoryContextSwitchTo(saved);
    MemoryContextReset(scratch);
    bytes += chunk->events.back().bytes();
  }
  row_reader_.Close();
  MemoryContextDelete(scratch);
  return found;
}

void LaneReader::Confirm(const EventChunk& chunk) {
  next_ += state_ == State::kLocations ? fetched_used_ : chunk.events.size() - chunk_before_;
  fetched_.erase(fetched_.begin(), fetched_.begin() + static_cast<std::ptrdiff_t>(fetched_used_));
  if (chunk.events.size() > chunk_before_) {
    after_ = chunk.events.back().created_at;
  }
}

void LaneReader::Undo(EventChunk* chunk, size_t before) {
  chunk->events.resize(before);
  fetched_used_ = 0;
  // The events of a small window have moved into the chunk that is taken back. If the spill file could not be read, a
  // row may be missing.
  const bool torn = sorted_ != nullptr && !sorted_->whole();
  if (changed_ || torn || state_ == State::kCollecting || state_ == State::kEvents) {
    Forget();
    state_ = State::kOpened;
  }
}

bool LaneReader::at_end() const {
  return state_ == State::kEvents ? next_ == locations_.size()
                                  : state_ == State::kLocations && sorted_->count() == next_ && fetched_.empty();
}

size_t LaneReader::memory_used() const {
  return buffered_bytes_ + (sorted_ != nullptr ? sorted_->memory_used() : 0);
}

}  // namespace outbox::log
