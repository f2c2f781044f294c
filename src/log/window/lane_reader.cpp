#include "log/window/lane_reader.h"

#include <algorithm>
#include <utility>

#include "log/window/blank.h"

namespace outbox::log {

// --- the pass ----------------------------------------------------------------------------------------------------

namespace {

// For one lane.
class OneLane final : public RowVisitor {
 public:
  OneLane(WindowPass* pass, LaneTake* take) : pass_(pass), take_(take) {}

  void Row(const RowView& row, uint64_t location) override {
    pass_->saw_rows = true;
    if (RowWanted(row, take_->filter)) {
      take_->rows.Add({row.created_at, location}, row.deliver_at, RowBytes(row),
                      [&row](Arena* arena, Event* event) { CopyRow(row, arena, event); });
    }
  }

 private:
  WindowPass* pass_;
  LaneTake* take_;
};

// For several.
class SeveralLanes final : public RowVisitor {
 public:
  SeveralLanes(WindowPass* pass, SharedWindows* windows) : pass_(pass), windows_(windows) {}

  void Row(const RowView& row, uint64_t location) override {
    pass_->saw_rows = true;
    if (RowForgotten(row)) {
      return;
    }
    RowNames names;
    names.aggregate_type = RowText(row, kAggregateType);
    names.event_type = RowText(row, kEventType);
    const SharedWindows::Wanting* wanting = windows_->WantedBy(names.aggregate_type, names.event_type);
    if (wanting == nullptr) {
      return;
    }
    names.xid = row.xid;
    memcpy(names.id.data(), row.id, names.id.size());
    names.aggregate_id = RowText(row, kAggregateId);
    names.topic = RowText(row, kTopic);
    names.deliver_at = row.deliver_at;
    windows_->Give(
        *wanting, names, {row.created_at, location}, [&row] { return RowBytes(row); },
        [&row](Arena* arena, Event* event) { CopyRow(row, arena, event); });
  }

 private:
  WindowPass* pass_;
  SharedWindows* windows_;
};

}  // namespace

bool WindowPass::Advance(size_t budget, SharedWindows* windows, LaneTake* take) {
  if (!begun_) {
    days::LogTableList* list = days::CurrentLogTables();
    days::JudgeLogTables(list);
    leaves_ = *list;
    begun_ = true;
  }
  OneLane one(this, take);
  SeveralLanes several(this, windows);
  const bool alone = windows == nullptr || takes.size() <= 1;
  if (!alone) {
    windows->BeginSlice(*this);
  }
  const Scanned scanned = ScanWindow(bounds_, after, leaves_, budget, &scan_,
                                     alone ? static_cast<RowVisitor*>(&one) : static_cast<RowVisitor*>(&several));
  collected = scanned == Scanned::kAll;
  return scanned != Scanned::kRewritten;
}

// How many rows are asked for ahead of the one that is copied. Since the window was looked through they have left the
// cache, and the more lanes there are the farther apart they lie, so that the processor does not see which comes next.
// Waiting for each took a fifth of what a drain costs a worker with one lane, and more with four.
constexpr size_t kExpected = 8;

// --- one lane's window -------------------------------------------------------------------------------------------

LaneReader::LaneReader(const EventFilter* filter, size_t memory, SharedWindows* windows)
    : filter_(filter), memory_(memory), windows_(windows) {}
LaneReader::~LaneReader() = default;

void LaneReader::Take(std::shared_ptr<LaneTake> take) {
  take_ = std::move(take);
  pass_ = static_cast<WindowPass*>(take_->reading.get());
  again_ = false;
  next_ = 0;
  fetched_.clear();
  state_ = State::kCollecting;
}

void LaneReader::ReadAlone(const Snapshot& from, const Snapshot& to) {
  Position at{.base = from, .target = to, .done_to = after_};
  Take(std::make_shared<LaneTake>(std::make_shared<WindowPass>(from, to, after_), std::move(at), filter_, memory_,
                                  memory_ / 2, nullptr));
}

void LaneReader::Open(const Snapshot& from, const Snapshot& to, int64_t after) {
  Close();
  after_ = after;
  ReadAlone(from, to);
}

void LaneReader::Open(std::shared_ptr<LaneTake> take) {
  Close();
  after_ = take->after();
  Take(std::move(take));
  if (pass_->collected && !take_->dropped) {
    FinishCollecting();
  }
}

void LaneReader::Close() {
  take_.reset();
  pass_ = nullptr;
  saw_rows_ = false;
  fetched_.clear();
  state_ = State::kClosed;
}

void LaneReader::Abandon() {
  if (pass_ != nullptr && windows_ != nullptr) {
    windows_->Break(pass_);
  }
  Close();
}

uint64_t LaneReader::NarrowDurable(uint64_t lsn) {
  return pass_->durable_lsn = std::min<uint64_t>(lsn, pass_->commit_lsn());
}

bool LaneReader::Collect(size_t budget) {
  if (state_ != State::kCollecting) {
    return true;
  }
  if (again_ || take_->dropped || pass_->broken) {
    saw_rows_ |= take_->saw_rows();
    const std::shared_ptr<LaneTake> before = take_;
    ReadAlone(before->from.base, before->reading->to);
  }
  changed_ = !pass_->collected && !pass_->Advance(budget, windows_, take_.get());
  if (pass_->collected && !take_->dropped) {
    FinishCollecting();
  }
  return !changed_;
}

void LaneReader::FinishCollecting() {
  take_->rows.Finish();
  state_ = take_->rows.large() ? State::kLocations : State::kEvents;
}

void LaneReader::EndEarly() {
  pass_->collected = true;
  FinishCollecting();
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
  LaneRows& rows = take_->rows;
  // The usual case, a handful of events: their bytes move and are not copied.
  if (next_ == 0 && chunk_before_ == 0 && rows.event_bytes() <= max_bytes) {
    rows.MoveEvents(chunk);
    return;
  }
  size_t bytes = 0;
  for (size_t i = next_; i < rows.events() && (bytes == 0 || bytes < max_bytes); i++) {
    const Event& event = rows.event(i);
    chunk->events.push_back(CopyEvent(event, &chunk->arena));
    bytes += event.bytes();
  }
}

bool LaneReader::FetchRows(size_t max_bytes, EventChunk* chunk) {
  MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "outbox rows", ALLOCSET_DEFAULT_SIZES);
  row_reader_.Start(pass_->bounds(), pass_->leaves());
  bool found = true;
  size_t expected = 0;  // of fetched_
  chunk->events.reserve(chunk_before_ + chunk_events_);
  for (size_t bytes = 0; bytes == 0 || bytes < max_bytes; fetched_used_++) {
    for (; expected < fetched_used_ + kExpected; expected++) {
      RowLocation next;
      if (expected == fetched_.size()) {
        if (!take_->rows.sorted()->Next(&next)) {
          break;
        }
        fetched_.push_back(next);
      }
      row_reader_.Expect(fetched_[expected]);
    }
    if (fetched_used_ == expected) {
      break;
    }
    row_reader_.Prefetch(fetched_[std::min(fetched_used_ + kExpected / 2, expected - 1)]);
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
    const size_t at = chunk->events.size();
    chunk->events.emplace_back();
    CopyRow(row, &chunk->arena, &chunk->events[at], at == 0 ? nullptr : &chunk->events[at - 1]);
    MemoryContextSwitchTo(saved);
    MemoryContextReset(scratch);
    bytes += chunk->events.back().bytes();
  }
  chunk_events_ = chunk->events.size() - chunk_before_;
  row_reader_.Close();
  MemoryContextDelete(scratch);
  return found;
}

void LaneReader::Confirm(const EventChunk& chunk) {
  next_ += state_ == State::kLocations ? fetched_used_ : chunk.events.size() - chunk_before_;
  fetched_.erase(fetched_.begin(), fetched_.begin() + static_cast<std::ptrdiff_t>(fetched_used_));
  for (size_t i = chunk_before_; i < chunk.events.size() && take_->rows.delays(); i++) {
    if (chunk.events[i].deliver_at != 0) {
      take_->rows.NoteGone(chunk.events[i].deliver_at);
    }
  }
  if (chunk.events.size() > chunk_before_) {
    after_ = chunk.events.back().created_at;
  }
  if (state_ == State::kEvents && next_ == take_->rows.events()) {
    take_->rows.Free();
    state_ = State::kDone;
  }
}

void LaneReader::Undo(EventChunk* chunk, size_t before) {
  chunk->events.resize(before);
  fetched_used_ = 0;
  // The events of a small window have moved into the chunk that is taken back. If the spill file could not be read, a
  // row may be missing.
  const bool torn = state_ == State::kLocations && !take_->rows.sorted()->whole();
  if (changed_ || torn || state_ == State::kCollecting || state_ == State::kEvents) {
    if (!pass_->collected && windows_ != nullptr) {
      windows_->Break(pass_);
    }
    take_->rows.Free();
    fetched_.clear();
    again_ = true;
    state_ = State::kCollecting;
  }
}

bool LaneReader::at_end() const {
  return state_ == State::kDone ||
         (state_ == State::kLocations && fetched_.empty() && take_->rows.sorted()->count() == next_);
}

}  // namespace outbox::log
