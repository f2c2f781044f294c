#include "log/pg_lane_log.h"

#include <algorithm>

#include "base/fault_point.h"
#include "days/log_table_list.h"
#include "days/with_day_table.h"
#include "log/loss/rewind.h"
#include "log/progress/lane_tables.h"
#include "log/progress/ticks.h"
#include "log/window/durable.h"
#include "log/window/lane_reader.h"
#include "log/window/settled.h"
#include "log/window/shared_window.h"
#include "log/window/snapshots.h"
#include "pg/log_line.h"
#include "pg/settings.h"
#include "pg/sql.h"

namespace outbox::log {

using namespace pg::sql;

namespace {

// Rows looked at in one go: some 100 ms, after which the worker sees to its deliveries.
constexpr size_t kSlice = 250'000;

static_assert(SharedLane::kAdoptedEnd == days::kAdoptedEnd);

size_t Slice() {
  const int64_t smaller = OUTBOX_FAULT_VALUE("slice.rows");
  return smaller > 0 ? static_cast<size_t>(smaller) : kSlice;
}

}  // namespace

PgLaneLog::PgLaneLog(LaneId id, int lanes, uint64_t incarnation, const EventFilter* filter, SharedWindows* shared)
    : id_(id), lanes_(lanes), incarnation_(incarnation), shared_(shared), ticks_(std::make_unique<TickCursor>()) {
  const size_t memory = static_cast<size_t>(pg::settings.sort_mem_kb) * 1024;
  if (shared_ != nullptr) {
    place_ = std::make_unique<SharedLane>(shared_, filter, memory);
  }
  reader_ = std::make_unique<LaneReader>(filter, memory, shared_);
}

PgLaneLog::~PgLaneLog() = default;

Status PgLaneLog::LoadPosition(Position* position) {
  bool found = false;
  LaneRow lane_row;
  Status status = TryInTransaction([&] {
    OUTBOX_FAULT_THROW("load.before");
    found = ReadLaneRow(id_, &lane_row);
  });
  if (status.ok() && !found) {
    return Status(ErrorClass::kInternal, "NO_LANE", "the lane has gone: its route was dropped");
  }
  if (status.ok() && lane_row.lanes != lanes_) {
    return Status(ErrorClass::kInternal, "CONFIG_CHANGED", "the route has another number of lanes by now");
  }
  if (status.ok()) {
    *position = std::move(lane_row.position);
    converging_ = lane_row.converging;
    limit_ = std::move(lane_row.limit);
    since_ = lane_row.since;
    there_since_ = lane_row.there_since + kPgEpochMicros;
    repeats_to_ = std::move(lane_row.repeats_to);
    if (place_ != nullptr && !converging_ && !limit_) {
      place_->Stand(*position);
    } else if (place_ != nullptr) {
      place_->StandNowhere();
    }
  }
  return status;
}

// --- opening a window --------------------------------------------------------------------------------------------

// A window on its way to being opened: where it may end, and does.
struct PgLaneLog::Opening {
  enum class End { kNone, kTarget, kTick, kLimit, kNow, kAhead };

  const Snapshot* limit = nullptr;  // no window ends beyond it; nullptr: there is none
  bool together = false;            // with other lanes
  End end = End::kNone;
  Snapshot now;
  uint64_t durable_lsn = 0;
  Snapshot tick;
  bool ticks_asked = false;

  Snapshot from;  // what it reads begins there; the lane may stand earlier, where others have found nothing for it

  bool opens() const { return end != End::kNone && end != End::kAhead; }
  const Snapshot& To(const Position& position) const {
    return end == End::kTarget ? *position.target : end == End::kTick ? tick : end == End::kLimit ? *limit : now;
  }
};

// False: the lane stands where it has to stay.
bool PgLaneLog::MayOpen(const Position& position, Opening* opening) {
  opening->limit = limit_ ? &*limit_ : nullptr;
  stopped_ = false;
  if (side_limit_) {
    if (!position.target && position.base == *side_limit_) {
      return false;
    }
    opening->limit = opening->limit == nullptr || opening->limit->Covers(*side_limit_) ? &*side_limit_ : opening->limit;
  }
  stopped_ = converging_ && (!limit_ || (!position.target && position.base == *limit_));
  opening->together = place_ != nullptr && opening->limit == nullptr;
  return !stopped_;
}

// Whether another lane has found out already what there is to read from there.
bool PgLaneLog::KnownByOthers(const Position& position, relay::Window* window, bool* opened) {
  if (std::shared_ptr<LaneTake> take = place_->TakeAhead(position); take != nullptr) {
    const WindowReading& reading = *take->reading;
    window->from = position.base;
    window->to = reading.to;
    window->durable_lsn = reading.durable_lsn;
    window->current = shared_->IsNow(reading);
    reader_->Open(std::move(take));
    *opened = true;
    return true;
  }
  return !position.target && shared_->NothingSince(position.base);
}

// Plain.
void PgLaneLog::ChooseEnd(const Position& position, Opening* opening) {
  ReadActiveSnapshot(&opening->now);
  opening->durable_lsn = DurableTarget();
  // What a turn knows of "now" may be older than a window that the lane was put into since.
  if (opening->together && !position.target) {
    shared_->ChooseEnd(opening->from, &opening->now, &opening->durable_lsn);
  }
  const uint64_t finished = FinishedBetween(opening->from, opening->now);
  if (position.target) {
    opening->end = Opening::End::kTarget;
  } else if (opening->from.xmax > opening->now.xmax) {
    opening->end = Opening::End::kAhead;
  } else if (finished > 0 || opening->limit != nullptr) {
    opening->ticks_asked = finished > TickCursor::kNearNow && !ticks_locked_;
    // A tick that was not taken on this server (it came with a dump) is no snapshot that a window may end at.
    const bool tick =
        opening->ticks_asked && ticks_->Next(opening->from, &opening->tick) && opening->now.Covers(opening->tick);
    opening->end = tick ? Opening::End::kTick : Opening::End::kNow;
    // The lanes have to stand at the identical snapshot, even where two snapshots see the same.
    if (opening->limit != nullptr && (!tick || !opening->limit->Covers(opening->tick))) {
      opening->end = Opening::End::kLimit;
    }
  }
}

void PgLaneLog::BeginReading(const Position& position, const Opening& opening) {
  const Snapshot& to = opening.To(position);
  if (!opening.together) {
    reader_->Open(position.base, to, position.done_to);
    return;
  }
  const SharedWindows::Gathered gathered =
      shared_->Gather(place_.get(), {opening.from, position.target, position.done_to}, to);
  const auto pass = std::make_shared<WindowPass>(gathered.from, to, gathered.after);
  pass->durable_lsn = opening.durable_lsn;
  pass->turn = opening.end == Opening::End::kNow ? shared_->turn() : 0;
  reader_->Open(shared_->Join(pass, place_.get(), gathered.with));
}

Status PgLaneLog::OpenWindow(const Position& position, relay::Window* window, bool* opened) {
  *opened = false;
  Opening opening;
  if (!MayOpen(position, &opening)) {
    return Status();
  }
  OUTBOX_FAULT_POINT("window.start");
  repeats_ = repeats_to_ && !position.base.Covers(*repeats_to_);
  if (reader_->open()) {
    ticks_->Learn(reader_->looked());
    reader_->Close();
  }
  if (opening.together) {
    bool known = false;
    Status status = Try([&] { known = KnownByOthers(position, window, opened); });
    if (known || !status.ok()) {
      return status;
    }
  }
  opening.from = opening.together ? place_->LooksFrom() : position.base;
  Status status = TryInTransaction([&] {
    ChooseEnd(position, &opening);
    if (opening.opens()) {
      OUTBOX_FAULT_THROW("window.before");
      BeginReading(position, opening);
      reader_->Collect(Slice());
      OUTBOX_FAULT_THROW("window.collected");
    }
  });
  // Smaller windows are only an optimization: while the ticks are locked, a backlog is read as one window.
  ticks_locked_ = opening.ticks_asked && !status.ok() && status.error().code == kLocked;
  if (!status.ok()) {
    reader_->Abandon();
    return status;
  }
  if (opening.end == Opening::End::kAhead) {
    return Status(ErrorClass::kInternal, "POSITION_AHEAD",
                  "the lane's position is ahead of this server's transactions: their ids have gone back since");
  }
  if (!opening.opens()) {
    if (opening.together) {
      shared_->NoteNothingSince(opening.from);
      status = Try([&] { KnownByOthers(position, window, opened); });
    }
    return status;
  }
  // A window that was looked through at once knows the WAL positions of its commits, which are nearly always on disk:
  // then other sessions' WAL need not be flushed.
  if (reader_->collected() && !StandbysAreAsked()) {
    opening.durable_lsn = reader_->NarrowDurable(opening.durable_lsn);
  }
  window->from = position.base;
  window->to = opening.To(position);
  window->durable_lsn = opening.durable_lsn;
  window->current = opening.end == Opening::End::kNow;
  *opened = true;
  if (place_ != nullptr && opening.limit == nullptr) {
    place_->NoteOpened(reader_->take());
  }
  OUTBOX_FAULT_POINT("window.opened");
  return status;
}

void PgLaneLog::LimitTo(const Snapshot* limit) {
  side_limit_.reset();
  if (limit != nullptr) {
    side_limit_ = *limit;
  }
}

Status PgLaneLog::ReadChunk(size_t max_bytes, EventChunk* chunk, bool* end) {
  *end = false;
  if (!reader_->open()) {
    return Status(ErrorClass::kInternal, "NO_WINDOW", "no window is open for reading");
  }
  if (reader_->in_memory() && !repeats_) {
    return Try([&] {
      reader_->Fetch(max_bytes, chunk);
      reader_->Confirm(*chunk);
      *end = reader_->at_end();
    });
  }
  size_t before = chunk->events.size();
  bool changed = false;
  bool fetched = false;
  settled_.clear();
  Status status = TryInTransaction([&] {
    OUTBOX_FAULT_THROW("chunk.before");
    if (!reader_->collected()) {
      changed = !reader_->Collect(Slice());
    }
    if (reader_->collected()) {
      changed = !reader_->Fetch(max_bytes, chunk);
      fetched = !changed;
      if (repeats_ && fetched) {
        ListSettled(id_.route_id, *chunk, before, &settled_);
      }
      OUTBOX_FAULT_THROW("chunk.fetched");
    }
  });
  if (status.ok() && changed) {
    status = Try([&] {
      pg::Guard([&] {
        ereport(LOG, (errmsg("outbox: the log was rewritten while lane %d of route " INT64_FORMAT " read it", id_.lane,
                             id_.route_id),
                      errdetail("The rest of its window is read afresh."),
                      pg::LogEvent("log_rewritten", {{"lane", pg::LogNumber(id_.lane)}})));
      });
    });
  }
  if (status.ok() && changed) {
    status = Status(ErrorClass::kInternal, "LOG_CHANGED",
                    "rows of the log moved or went while their window was read; it is read afresh");
  }
  if (!status.ok()) {
    reader_->Undo(chunk, before);
  } else if (fetched) {
    reader_->Confirm(*chunk);
    *end = reader_->at_end();
    DropSettled(settled_, before, chunk);
  }
  return status;
}

bool PgLaneLog::rests() const {
  return place_ != nullptr && place_->Rests();
}

bool PgLaneLog::saw_rows() const {
  return reader_->saw_rows();
}

relay::LaneLog::Found PgLaneLog::FoundAhead(int64_t wall) const {
  Found found;
  found.whole = !reader_->open() || reader_->collected();
  if (found.whole) {
    found.events = reader_->LeftAt(wall);
  }
  if (found.whole && place_ != nullptr) {
    const SharedLane::Ahead ahead = place_->FoundAhead(wall);
    found.events.Add(ahead.events);
    found.to = ahead.to;
  }
  return found;
}

Status PgLaneLog::CheckDurable(uint64_t lsn, bool* durable) {
  *durable = false;
  MemoryContext saved = CurrentMemoryContext;
  return Try([&] {
    OUTBOX_FAULT_THROW("durable.before");
    MemoryContextSwitchTo(ErrorContext());
    *durable = pg::Guard([&] { return MakeDurable(lsn); });
    MemoryContextSwitchTo(saved);
  });
}

Status PgLaneLog::SaveProgress(std::span<relay::ProgressSave> saves) {
  const bool durable = std::any_of(saves.begin(), saves.end(), [](const auto& save) { return save.durable; });
  Status status = days::TryWithDayTable(days::DayTableKind::kProgress, [&](int64 at) {
    OUTBOX_FAULT_THROW("save.before");
    if (!durable) {
      pg::CommitWithoutFlush();
    }
    for (relay::ProgressSave& save : saves) {
      auto* lane = static_cast<PgLaneLog*>(save.log);
      save.owner = AppendProgress(lane->id_, lane->incarnation_, lane->since_, at, save.position, save.places,
                                  lane->server_run_, &lane->period_) != Appended::kLost;
    }
    OUTBOX_FAULT_THROW("save.uncommitted");
  });
  OUTBOX_FAULT_POINT("save.after");
  return status;
}

Status PgLaneLog::Rewind(const std::string& server_run, bool resend, relay::Loss* loss) {
  period_.known = false;  // it may append to the lane's progress
  return RewindLane(id_, incarnation_, server_run, resend, loss);
}

}  // namespace outbox::log
