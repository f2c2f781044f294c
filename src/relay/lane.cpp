#include "relay/lane.h"

#include <algorithm>
#include <utility>

#include "base/fault_point.h"

namespace outbox::relay {

namespace {

constexpr size_t kMaxWindows = 256;    // in flight at once: each holds two snapshots
constexpr size_t kMaxDiverted = 1000;  // parked at once
constexpr int64_t kLongestSavePause = 5'000'000;

}  // namespace

Lane::Lane(const LaneId& id, uint32_t flow, std::shared_ptr<const format::RouteSpec> spec, std::unique_ptr<LaneLog> log,
           std::shared_ptr<ParkedQueue> parked, Destination* destination, const EngineOptions& options)
    : id_(id),
      flow_(flow),
      log_(std::move(log)),
      parked_(std::move(parked)),
      destination_(destination),
      format_(std::make_unique<format::PlainFormat>(std::move(spec))),
      log_backoff_(options.backoff_base_micros, options.backoff_cap_micros),
      backoff_(options.backoff_base_micros, options.backoff_cap_micros),
      save_backoff_(options.backoff_base_micros, std::min(options.backoff_cap_micros, kLongestSavePause)) {}

Lane::~Lane() = default;

void Lane::SetSpec(std::shared_ptr<const format::RouteSpec> spec) {
  if (filter_ != nullptr) {
    filter_->SetSpec(spec);
    pipeline_.ForgetMarks();  // topics may have other names
  }
  if (sides_ != nullptr) {
    sides_->SetSpec(spec);
  }
  fence_ |= spec->pauses_keys();
  if (format_->spec().pauses_keys()) {
    WakeParked();  // what was parked since somebody resumed its key, but under the old pause
  }
  if (pump() != nullptr && !(format_->spec().topic() == spec->topic())) {
    parked_->ForgetKeys();  // whoever changed the topics has given parked events their new keys
  }
  format_ = std::make_unique<format::PlainFormat>(std::move(spec));
  ApplyPauses();
}

bool Lane::Step(TurnContext* turn) {
  if (resolved_) {
    Advance();
  }
  EndTest(*turn);
  switch (state_) {
    case LaneState::kGone:
      return false;
    case LaneState::kStarting:
      return Load(turn);
    case LaneState::kReleasing:
      return StepReleasing(turn);
    default:
      break;
  }
  if (!destination_->health().up && error_.ok() && pipeline_.unresolved() > 0) {
    NoteError(destination_->health().error, *turn);
  }
  bool worked = false;
  if (state_ == LaneState::kDraining && pipeline_.outstanding() == 0) {
    Settle(*turn);
    worked = true;
  }
  if (state_ == LaneState::kParking) {
    worked |= ParkRefused(turn);
  }
  if (state_ == LaneState::kForking) {
    worked |= ForkOne(turn);
  }
  if (state_ == LaneState::kBackingOff && turn->now >= next_try_) {
    SetFlowing();
    worked = true;
  }
  if (state_ == LaneState::kRunning || state_ == LaneState::kIdle) {
    worked |= Read(turn);
    SetFlowing();
  }
  if (state_ == LaneState::kRunning || state_ == LaneState::kIdle) {
    worked |= Send(turn);
  }
  if (state_ != LaneState::kGone) {
    worked |= Save(turn);
  }
  if (state_ != LaneState::kGone && pump() != nullptr) {
    worked |= parked_->Step(turn, format_.get(), MayClaim());
    if (parked_->lost()) {
      Leave(GoneReason::kLost);
    }
  }
  if (state_ != LaneState::kGone && sides_ != nullptr) {
    worked |= StepSides(turn);
  }
  return worked;
}

void Lane::SetFlowing() {
  state_ = !leaving_.empty()   ? LaneState::kDraining
           : paused_           ? LaneState::kPaused
           : pipeline_.empty() ? LaneState::kIdle
                               : LaneState::kRunning;
}

// --- reading -----------------------------------------------------------------------------------------------------

bool Lane::LogFailed(LogCall call, const Status& status, const TurnContext& turn) {
  if (status.ok()) {
    if (log_backoff_.attempts() > 0 && call == log_failed_call_) {
      log_backoff_.Reset();
      log_error_ = Error{};
    }
    return false;
  }
  if (log_backoff_.attempts() == 0) {
    log_error_since_ = turn.clock->WallMicros();
  }
  log_try_ = turn.now + PauseAfter(status.error(), &log_backoff_, turn.clock->Random());
  log_failed_call_ = call;
  log_error_ = status.error();
  return true;
}

bool Lane::WantsWindow(const TurnContext& turn) const {
  return opens_ && pipeline_.windows() < kMaxWindows &&
         (!caught_up_ || woken_ || turn.barrier > barrier_opened_ || turn.now >= next_poll_);
}

bool Lane::Read(TurnContext* turn) {
  hungry_ = false;
  if (!LogReady(*turn) || (!pipeline_.reading() && !WantsWindow(*turn))) {
    return false;
  }
  if ((!destination_->breaker().closed() || ramp_ != kNoRamp) && pipeline_.unresolved() > 0) {
    return false;  // one chunk is enough to find out whether it is up again
  }
  if (!destination_->MayRead(pipeline_.bytes())) {
    hungry_ = true;
    return false;
  }
  if (!pipeline_.reading() && !TryOpen(turn)) {
    return false;
  }
  EventChunk chunk;
  bool end = false;
  const size_t bytes = ramp_ == kNoRamp ? destination_->chunk_bytes() : Destination::kSmallestChunk;
  if (LogFailed(LogCall::kRead, log_->ReadChunk(bytes, &chunk, &end), *turn)) {
    return false;
  }
  passed_ |= log_->saw_rows();
  Sift(&chunk);
  destination_->Charge(pipeline_.AddChunk(std::move(chunk), end));
  if (end) {
    Advance();  // nothing of it may have been for this lane
  }
  return true;
}

bool Lane::TryOpen(TurnContext* turn) {
  Window window;
  bool opened = false;
  opened_version_ = filter_ == nullptr ? 0 : filter_->version();
  if (LogFailed(LogCall::kOpen, log_->OpenWindow(pipeline_.ReadPosition(), &window, &opened), *turn)) {
    return false;
  }
  woken_ = false;
  next_poll_ = turn->now + turn->options->poll_micros;
  caught_up_ = !opened || window.current;
  held_ = !opened && log_->held();
  if (caught_up_) {
    barrier_opened_ = turn->barrier;
  }
  if (!opened) {
    if (!held_) {
      pipeline_.AddBarrier(turn->barrier);
    }
    return false;
  }
  const uint64_t barrier = window.current ? turn->barrier : 0;
  pipeline_.AddWindow(std::move(window), barrier);
  return true;
}

// --- sending -----------------------------------------------------------------------------------------------------

bool Lane::Durable(uint64_t lsn, TurnContext* turn, bool* worked) {
  if (lsn <= turn->durable_lsn) {
    return true;
  }
  if (!LogReady(*turn) || turn->now < durable_try_) {
    return false;
  }
  bool durable = false;
  if (LogFailed(LogCall::kDurable, log_->CheckDurable(lsn, &durable), *turn)) {
    return false;
  }
  if (!durable) {
    durable_try_ = turn->now + turn->options->durable_retry_micros;
    return false;
  }
  turn->durable_lsn = lsn;
  *worked = true;
  return true;
}

// How many events of the run may go now; 0: a suspect is next and others are still under way.
uint32_t Lane::LimitToSuspects(const Run& run, bool* solo) const {
  const auto suspect = suspects_.lower_bound(run.first);
  if (suspect == suspects_.end() || *suspect >= run.first + run.count) {
    return run.count;
  }
  if (*suspect > run.first) {
    return static_cast<uint32_t>(*suspect - run.first);
  }
  *solo = true;
  return pipeline_.outstanding() == 0 ? 1 : 0;
}

// Packs events until one cannot be sent at all (then *bad says why), one is to be parked (then *diverted says how) or
// the batch is large enough. Returns how many.
uint32_t Lane::Format(const Run& run, int64_t wall, std::string* records, Error* bad, Diverted* diverted) {
  const size_t enough = destination_->chunk_bytes();
  records->reserve(std::min(records->size() + run.count * (record_bytes_ + record_bytes_ / 8), enough + enough / 4));
  uint32_t count = 0;
  while (count < run.count && (count == 0 || records->size() < enough)) {
    const Event& event = run.events[count];
    if (Diverts(event, wall, diverted)) {
      diverted->ordinal = run.first + count;
      break;
    }
    if (!format_->Append(event, wall, records, bad)) {
      break;
    }
    ++count;
  }
  return count;
}

bool Lane::Send(TurnContext* turn) {
  bool worked = false;
  uint64_t stop = UINT64_MAX;
  const uint32_t admitted = Admitted(turn, &stop, &worked);
  if (admitted == 0 || !ParkDiverted(turn) || !BeWatchful()) {
    return worked;
  }
  std::string records;
  uint32_t count = 0;
  probing_ = ramp_ != kNoRamp;
  const bool passes = BeginProbe(*turn);
  bool passed = false;
  const uint64_t first_seq = probing_ ? destination_->retry().next_seq() : destination_->next_seq();
  const int64_t wall = turn->clock->WallMicros();
  const uint32_t room =
      std::min(pace_.Room(Pace::Load(pipeline_.outstanding(), pipeline_.outstanding_fresh()), turn->now), admitted);
  while (count < room && records.size() < destination_->chunk_bytes() && state_ != LaneState::kSolo &&
         diverted_.size() < kMaxDiverted) {
    Run run = pipeline_.NextRun(room - count);
    bool solo = false;
    if (run.first >= stop) {
      break;
    }
    run.count = static_cast<uint32_t>(std::min<uint64_t>(run.count, stop - run.first));
    if (run.count == 0 || !Durable(run.durable_lsn, turn, &worked)) {
      break;
    }
    if (!suspects_.empty()) {
      run.count = LimitToSuspects(run, &solo);
      if (run.count == 0) {
        break;
      }
    }
    Error bad;
    Diverted diverted{.ordinal = UINT64_MAX};
    const uint32_t packed = Format(run, wall, &records, &bad, &diverted);
    if (packed > 0) {
      pipeline_.MarkSent(run, packed, first_seq + count);
      count += packed;
    }
    if (passes && diverted.ordinal != UINT64_MAX && diverted.state == ParkedState::kBlocked && !diverted.paused) {
      passed = true;
      pipeline_.Skip(diverted.ordinal);
      continue;
    }
    if (diverted.ordinal != UINT64_MAX) {
      diverted_.push_back(diverted);
      pipeline_.Skip(diverted.ordinal);
      continue;
    }
    if (!bad.ok()) {
      const uint64_t ordinal = run.first + packed;
      refused_.push_back({ordinal, std::move(bad), 1});
      pipeline_.Skip(ordinal);
      state_ = LaneState::kParking;
      worked = true;
      break;
    }
    if (solo) {
      solo_ = run.first;
      state_ = LaneState::kSolo;
    }
  }
  WaitForParked(passed && count == 0 && refused_.empty(), *turn);
  if (count > 0) {
    record_bytes_ = records.size() / count;
    OUTBOX_FAULT_POINT("submit.before");
    if (probing_) {
      destination_->retry().Ensure(destination_->factory());
      destination_->retry().Submit(flow_, epoch_, count, std::move(records), turn->now);
    } else {
      destination_->Submit(flow_, epoch_, count, std::move(records));
    }
    destination_->breaker().OnSent(flow_, probing_);
    OUTBOX_FAULT_POINT("submit.after");
    worked = true;
  }
  if (!diverted_.empty()) {
    worked |= ParkDiverted(turn);
  }
  return worked;
}

// --- acknowledging -----------------------------------------------------------------------------------------------

void Lane::Advance() {
  resolved_ = false;
  const uint64_t before = pipeline_.prefix();
  if (pipeline_.Advance()) {
    moved_ = true;
    dirty_ |= pipeline_.prefix() != before;
  }
  destination_->Refund(pipeline_.TakeFreed());
  const bool past_trouble = pipeline_.prefix() > trouble_at_ || pipeline_.empty();
  if (past_trouble && state_ != LaneState::kDraining && ramp_ != 1) {
    backoff_.Reset();
    aborts_ = 0;
    error_ = Error{};
  }
}

int64_t Lane::SaveDue(const TurnContext& turn) const {
  if (dirty_ || (moved_ && held_)) {
    return std::max(last_save_ + turn.options->save_micros, save_try_);
  }
  // Transactions finish all the time that have emitted nothing, lanes' own among them: that alone is no reason to
  // write.
  return moved_ && passed_ ? std::max(last_save_ + turn.options->save_moved_micros, save_try_) : kNever;
}

bool Lane::Save(TurnContext* turn) {
  return turn->now >= SaveDue(*turn) && SaveNow(turn);
}

// Its back-off is its own: what can be read is delivered also while its progress cannot be saved (a full disk), and
// would be delivered again by a successor. True when it had failed.
bool Lane::SaveFailed(const Status& status, const TurnContext& turn) {
  if (status.ok()) {
    save_backoff_.Reset();
    save_try_ = 0;
    save_error_ = Error{};
    return false;
  }
  if (save_backoff_.attempts() == 0) {
    save_error_since_ = turn.clock->WallMicros();
  }
  save_try_ = turn.now + PauseAfter(status.error(), &save_backoff_, turn.clock->Random());
  save_error_ = status.error();
  return true;
}

Status Lane::SaveWithPlaces(bool* owner) {
  std::vector<sink::Place> places;
  places_.Take(&places);
  Status status = log_->SaveProgress(pipeline_.position(), places, owner);
  if (!status.ok() || pipeline_.has_islands()) {
    for (const sink::Place& place : places) {
      places_.Add(place);
    }
  }
  return status;
}

bool Lane::SaveNow(TurnContext* turn) {
  bool owner = true;
  if (SaveFailed(SaveWithPlaces(&owner), *turn)) {
    return false;
  }
  if (!owner) {
    Leave(GoneReason::kLost);
    return true;
  }
  dirty_ = false;
  moved_ = false;
  passed_ = pipeline_.reading();
  last_save_ = turn->now;
  return true;
}

void Lane::Release(int64_t deadline) {
  if (state_ == LaneState::kStarting) {
    Leave(GoneReason::kReleased);
  } else if (state_ == LaneState::kReleasing) {
    release_deadline_ = std::min(release_deadline_, deadline);
  } else if (state_ != LaneState::kGone) {
    release_deadline_ = deadline;
    state_ = LaneState::kReleasing;
  }
  if (sides_ != nullptr) {
    sides_->Release(deadline);
  }
}

bool Lane::StepReleasing(TurnContext* turn) {
  const bool late = turn->now >= release_deadline_;
  bool worked = false;
  if (pump() != nullptr) {
    parked_->Release();
    worked = parked_->Step(turn, format_.get(), false);
    if (parked_->lost()) {
      Leave(GoneReason::kLost);
      return true;
    }
  }
  if (sides_ != nullptr && !sides_->empty()) {
    return worked;  // they go first; they have the same deadline
  }
  const bool waits = pipeline_.outstanding() > 0 || (pump() != nullptr && !parked_->at_rest());
  if (!late && (waits || (moved_ && !SaveReady(*turn)))) {
    return worked;
  }
  bool clean = !waits && !pipeline_.has_islands() && (sides_ == nullptr || sides_->clean());
  if (pump() != nullptr && !parked_->at_rest() && !parked_->GiveUp(turn) && parked_->lost()) {
    Leave(GoneReason::kLost);
    return true;
  }
  if (moved_) {
    bool owner = true;
    const bool failed = SaveFailed(SaveWithPlaces(&owner), *turn);
    if (failed && !late) {
      return false;
    }
    if (!failed && !owner) {
      Leave(GoneReason::kLost);
      return true;
    }
    clean = clean && !failed;
  }
  Leave(clean ? GoneReason::kReleased : GoneReason::kUnclean);
  return true;
}

void Lane::Leave(GoneReason reason) {
  destination_->Refund(pipeline_.TakeFreed() + pipeline_.bytes());
  destination_->breaker().Forget(flow_);
  destination_->turns().End(flow_, false, 0);
  state_ = LaneState::kGone;
  gone_reason_ = reason;
  if (reason == GoneReason::kLost && parent_ != nullptr) {
    parent_->Lose();  // they have one owner
  }
  if (reason == GoneReason::kLost && sides_ != nullptr) {
    sides_->Lose();
  }
}

}  // namespace outbox::relay
