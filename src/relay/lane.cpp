#include "relay/lane.h"

#include <algorithm>
#include <utility>

#include "base/fault_point.h"

namespace outbox::relay {

namespace {

constexpr size_t kMaxWindows = 256;    // in flight at once: each holds two snapshots
constexpr size_t kMaxDiverted = 1000;  // parked at once

}  // namespace

const char* LaneStateName(LaneState state) {
  switch (state) {
    case LaneState::kStarting:
      return "starting";
    case LaneState::kIdle:
      return "idle";
    case LaneState::kRunning:
      return "running";
    case LaneState::kDraining:
      return "draining";
    case LaneState::kParking:
      return "parking";
    case LaneState::kBackingOff:
      return "backing off";
    case LaneState::kSolo:
      return "solo";
    case LaneState::kReleasing:
      return "releasing";
    case LaneState::kGone:
      return "gone";
  }
  return "gone";
}

Lane::Lane(const LaneId& id, uint32_t flow, std::shared_ptr<const format::RouteSpec> spec, std::unique_ptr<LaneLog> log,
           std::shared_ptr<ParkedQueue> parked, Destination* destination, const EngineOptions& options)
    : id_(id),
      flow_(flow),
      log_(std::move(log)),
      parked_(std::move(parked)),
      destination_(destination),
      format_(std::make_unique<format::PlainFormat>(std::move(spec))),
      log_backoff_(options.backoff_base_micros, options.backoff_cap_micros),
      backoff_(options.backoff_base_micros, options.backoff_cap_micros) {}

Lane::~Lane() = default;

void Lane::SetSpec(std::shared_ptr<const format::RouteSpec> spec) {
  format_ = std::make_unique<format::PlainFormat>(std::move(spec));
}

bool Lane::Step(TurnContext* turn) {
  if (resolved_) {
    Advance();
  }
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
  if (state_ == LaneState::kBackingOff && turn->now >= next_try_) {
    SetFlowing();
    worked = true;
  }
  if (state_ == LaneState::kRunning || state_ == LaneState::kIdle) {
    worked |= Read(turn);
    SetFlowing();
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
  return worked;
}

void Lane::SetFlowing() {
  state_ = pipeline_.empty() ? LaneState::kIdle : LaneState::kRunning;
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
  log_try_ = turn.now + log_backoff_.Next(turn.clock->Random());
  log_failed_call_ = call;
  log_error_ = status.error();
  return true;
}

bool Lane::Load(TurnContext* turn) {
  if (!LogReady(*turn)) {
    return false;
  }
  Position position;
  if (LogFailed(LogCall::kLoad, log_->LoadPosition(&position), *turn) ||
      (pump() != nullptr && LogFailed(LogCall::kHeld, parked_->Load(), *turn))) {
    return false;
  }
  pipeline_.Start(std::move(position));
  last_save_ = turn->now - turn->options->save_micros;
  state_ = LaneState::kIdle;
  return true;
}

bool Lane::WantsWindow(const TurnContext& turn) const {
  return pipeline_.windows() < kMaxWindows &&
         (!caught_up_ || woken_ || turn.barrier > barrier_opened_ || turn.now >= next_poll_);
}

bool Lane::Read(TurnContext* turn) {
  hungry_ = false;
  if (!LogReady(*turn) || (!pipeline_.reading() && !WantsWindow(*turn))) {
    return false;
  }
  if (!destination_->breaker().closed() && pipeline_.unresolved() > 0) {
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
  if (LogFailed(LogCall::kRead, log_->ReadChunk(destination_->chunk_bytes(), &chunk, &end), *turn)) {
    return false;
  }
  destination_->Charge(pipeline_.AddChunk(std::move(chunk), end));
  if (end) {
    Advance();  // nothing of it may have been for this lane
  }
  return true;
}

bool Lane::TryOpen(TurnContext* turn) {
  Window window;
  bool opened = false;
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
  const uint32_t admitted = destination_->breaker().Admits();
  if (!destination_->accepting() || admitted == 0) {
    return false;
  }
  if (!ParkDiverted(turn)) {
    return false;
  }
  BeWatchful();
  bool worked = false;
  std::string records;
  uint32_t count = 0;
  const uint64_t first_seq = destination_->next_seq();
  const int64_t wall = turn->clock->WallMicros();
  const uint32_t room = std::min(pace_.Room(pipeline_.outstanding(), turn->now), admitted);
  while (count < room && records.size() < destination_->chunk_bytes() && state_ != LaneState::kSolo &&
         diverted_.size() < kMaxDiverted) {
    Run run = pipeline_.NextRun(room - count);
    bool solo = false;
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
  if (count > 0) {
    record_bytes_ = records.size() / count;
    OUTBOX_FAULT_POINT("submit.before");
    destination_->Submit(flow_, epoch_, count, std::move(records));
    OUTBOX_FAULT_POINT("submit.after");
    destination_->breaker().OnSent(flow_);
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
  if (past_trouble && state_ != LaneState::kDraining) {
    backoff_.Reset();
    aborts_ = 0;
    error_ = Error{};
  }
}

int64_t Lane::SaveDue(const TurnContext& turn) const {
  if (dirty_ || (moved_ && held_)) {
    return last_save_ + turn.options->save_micros;
  }
  return moved_ ? last_save_ + turn.options->save_moved_micros : kNever;
}

bool Lane::Save(TurnContext* turn) {
  if (turn->now < SaveDue(*turn) || !LogReady(*turn)) {
    return false;
  }
  bool owner = true;
  if (LogFailed(LogCall::kSave, log_->SaveProgress(pipeline_.position(), {}, &owner), *turn)) {
    return false;
  }
  if (!owner) {
    Leave(GoneReason::kLost);
    return true;
  }
  dirty_ = false;
  moved_ = false;
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
  const bool waits = pipeline_.outstanding() > 0 || (pump() != nullptr && !parked_->at_rest());
  if (!late && (waits || (moved_ && !LogReady(*turn)))) {
    return worked;
  }
  bool clean = !waits && !pipeline_.has_islands();
  if (pump() != nullptr && !parked_->at_rest() && !parked_->GiveUp(turn) && parked_->lost()) {
    Leave(GoneReason::kLost);
    return true;
  }
  if (moved_) {
    bool owner = true;
    const bool failed = LogFailed(LogCall::kSave, log_->SaveProgress(pipeline_.position(), {}, &owner), *turn);
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
  state_ = LaneState::kGone;
  gone_reason_ = reason;
}

// --- looking -----------------------------------------------------------------------------------------------------

// Whatever was due by turn.now has just been tried; if it could not be done, an outcome or a wake has to come first.
int64_t Lane::NextTime(const TurnContext& turn) const {
  int64_t next = kNever;
  const auto at = [&](int64_t time) {
    if (time > turn.now) {
      next = std::min(next, time);
    }
  };
  if (state_ == LaneState::kGone) {
    return kNever;
  }
  at(log_try_);
  if (pump() != nullptr) {
    at(parked_->NextTime(turn));
  }
  if (state_ == LaneState::kReleasing) {
    at(release_deadline_);
    return next;
  }
  at(SaveDue(turn));
  if (state_ == LaneState::kBackingOff) {
    at(next_try_);
  }
  if (state_ == LaneState::kRunning || state_ == LaneState::kIdle) {
    at(durable_try_);
    at(next_poll_);
  }
  return next;
}

void Lane::Fill(const TurnContext& turn, LaneStatus* status) const {
  status->id = id_;
  status->state = LaneStateName(state_);
  status->delivered_to = pipeline_.done_to();
  status->delivered_count = delivered_;
  status->parked_count = parked_count_;
  status->inflight_count = static_cast<int64_t>(pipeline_.unresolved());
  status->inflight_bytes = static_cast<int64_t>(pipeline_.bytes());
  const Breaker& breaker = destination_->breaker();
  const bool stopped = state_ == LaneState::kRunning && !breaker.closed() && !breaker.probing(flow_) &&
                       pipeline_.unresolved() > pipeline_.outstanding();
  if (stopped) {
    status->state = LaneStateName(LaneState::kBackingOff);
  }
  const int64_t try_at = state_ == LaneState::kBackingOff                      ? next_try_
                         : stopped && breaker.state() == Breaker::State::kOpen ? breaker.next_try()
                                                                               : log_try_;
  status->next_try_unix = try_at > turn.now ? turn.clock->WallMicros() + (try_at - turn.now) : 0;
  if (!log_error_.ok()) {
    status->error = &log_error_;
    status->error_since_unix = log_error_since_;
  } else if (error_.ok() && stopped) {
    status->error = &breaker.reason();
    status->error_since_unix = breaker.since_unix();
  } else if (error_.ok() && pump() != nullptr && parked_->error() != nullptr) {
    status->error = parked_->error();
    status->error_since_unix = parked_->error_since();
  } else {
    status->error = error_.ok() ? nullptr : &error_;
    status->error_since_unix = error_.ok() ? 0 : error_since_;
  }
  if (pump() != nullptr) {
    status->held_keys = static_cast<int64_t>(parked_->held_keys());
    status->retrying_count = parked_->outstanding();
  }
  status->barrier_done = pipeline_.barrier_done();
}

}  // namespace outbox::relay
