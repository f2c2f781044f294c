#include "relay/send/sender.h"

#include <algorithm>
#include <utility>

namespace outbox::relay {

namespace {

// Why an event waits that was found where the sink's process had been killed from outside.
Error KilledError() {
  return {ErrorClass::kSolo, "SINK_KILLED",
          "the sink's process was killed from outside three times while it had this event alone: perhaps by the "
          "kernel, for memory"};
}

}  // namespace

Error AbortedError() {
  return {ErrorClass::kDestination, "ABORTED", "records are aborted again and again"};
}

bool IsAborted(const Error& error) {
  return error.code == AbortedError().code;
}

Sender::Sender(uint32_t flow, SendSource* source, Destination* destination, SinkUse at, PoisonSearch::Way way,
               const EngineOptions& options, Meter* meter)
    : flow_(flow),
      source_(source),
      destination_(destination),
      meter_(meter),
      at_(at),
      search_(way),
      backoff_(options.backoff_base_micros, options.backoff_cap_micros) {}

// --- sending -----------------------------------------------------------------------------------------------------

Admission Sender::Admits(SinkUse sink, const TurnContext& turn) {
  if (sink != at_ && source_->outstanding() > 0) {
    return {};
  }
  if (sink != at_) {
    Turns().End(flow_, false, turn.now);
    at_ = sink;
  }
  const Breaker& breaker = destination_->breaker();
  if (sink == SinkUse::kSecond) {
    return {.count = OpensSecond() && source_->outstanding() == 0 ? breaker.Admits(true) : 0};
  }
  if (!destination_->accepting() || breaker.Admits() == 0) {
    return {};
  }
  PoisonTurns& turns = destination_->turns();
  bool took_turn = false;
  if (turns.holder() != flow_) {
    if (turns.holder() != 0) {
      return {};
    }
    if (search_.empty()) {
      return {.count = breaker.Admits()};
    }
    const uint64_t next = source_->outstanding() == 0 ? source_->next() : UINT64_MAX;
    if (next == UINT64_MAX || next < search_.first() || !turns.Take(flow_, turn.now)) {
      return {.count = breaker.Admits(), .stop = search_.first()};
    }
    took_turn = true;
  }
  return {.count = turns.quiet() ? UINT32_MAX : 0,
          .stop = search_.empty() ? 0 : search_.last() + 1,
          .took_turn = took_turn};
}

bool Sender::OpensSecond() const {
  const RetrySink& retry = destination_->retry();
  return retry.accepting() && (retry.turns().holder() == 0 || retry.turns().holder() == flow_);
}

Sender::TestTurn Sender::MayTest(uint64_t ordinal, const TurnContext& turn) {
  search_.Keep([this](uint64_t suspect) { return source_->Waits(suspect); });
  if (search_.empty() || search_.first() != ordinal) {
    return TestTurn::kWaits;
  }
  PoisonTurns& turns = Turns();
  if (turns.holder() == 0 && turns.Take(flow_, turn.now)) {
    return TestTurn::kTaken;
  }
  return turns.holder() == flow_ && turns.quiet() ? TestTurn::kNow : TestTurn::kWaits;
}

uint32_t Sender::LimitToSuspects(uint64_t first, uint32_t count) const {
  const auto suspect = suspects_.lower_bound(first);
  if (suspect == suspects_.end() || *suspect >= first + count) {
    return count;
  }
  if (*suspect > first) {
    return static_cast<uint32_t>(*suspect - first);
  }
  return source_->outstanding() == 0 ? 1 : 0;
}

uint64_t Sender::next_seq() const {
  return at_ == SinkUse::kSecond ? destination_->retry().submissions().next_seq()
                                 : destination_->submissions().next_seq();
}

void Sender::Submit(uint32_t more_flow, uint32_t count, std::string records, const TurnContext& turn) {
  if (at_ == SinkUse::kSecond) {
    destination_->retry().Ensure(destination_->factory());
    destination_->retry().Submit(flow_ + more_flow, epoch_, count, std::move(records), turn.now);
  } else {
    destination_->Submit(flow_ + more_flow, epoch_, count, std::move(records), turn.now);
  }
  destination_->breaker().OnSent(flow_, at_ == SinkUse::kSecond);
  meter_->Submitted(count);
}

void Sender::BeginSolo(uint64_t ordinal) {
  solo_ = ordinal;
  state_ = SendState::kSolo;
}

// --- outcomes ----------------------------------------------------------------------------------------------------

uint32_t Sender::OnResult(const sink::Result& result, const TurnContext& turn) {
  const bool delivered = result.outcome == sink::Outcome::kDelivered;
  ranges_.clear();
  const int64_t wall = turn.clock->WallMicros();
  meter_->BeginDelivered(turn.now, wall);
  const uint32_t resolved = source_->Resolve(result.first_seq, result.count, delivered, &ranges_);
  meter_->EndDelivered();
  if (resolved == 0) {
    return 0;
  }
  if (result.outcome == sink::Outcome::kAborted) {
    result.unsent ? meter_->Unsent(resolved) : meter_->Unknown(resolved);
  }
  const bool failed = result.outcome == sink::Outcome::kFailed;
  if (delivered || (failed && MeaningOf(result.error.error_class).answers)) {
    destination_->breaker().OnAnswer(flow_, turn.now, wall);
  }
  if (delivered) {
    Turns().OnDelivered(turn.now);
    if (state_ == SendState::kSolo) {
      suspects_.erase(solo_);
      if (!search_.empty() && search_.first() == solo_ && search_.last() == solo_) {
        search_.Drop();
        Turns().End(flow_, false, turn.now);
      }
      Flow();
    }
    return resolved;
  }
  if (state_ == SendState::kStopped) {
    return resolved;  // the lane's next owner sends it again
  }
  if (failed) {
    meter_->Failed(result.error.error_class, resolved);
    for (const OrdinalRange& range : ranges_) {
      for (uint64_t ordinal = range.first; ordinal <= range.last; ++ordinal) {
        failures_.push_back({ordinal, result.error, state_ == SendState::kSolo && ordinal == solo_});
      }
    }
    trouble_.Note(result.error, turn.clock->WallMicros());
  } else {
    cut_ = std::max(cut_, Cut::kAborted);
    under_way_.insert(under_way_.end(), ranges_.begin(), ranges_.end());
  }
  state_ = SendState::kDraining;
  return resolved;
}

void Sender::OnProgress(bool all_done, bool over) {
  suspects_.erase(suspects_.begin(), suspects_.lower_bound(source_->prefix()));
  if ((source_->prefix() <= trouble_at_ && !all_done) || state_ == SendState::kDraining) {
    return;
  }
  StartOver();
  if (over || all_done) {
    trouble_.Clear();
  }
}

void Sender::ForgetTopicTrouble() {
  if (trouble_.error().error_class == ErrorClass::kTopic) {
    trouble_.Clear();
  }
}

void Sender::Recover() {
  StartOver();
  trouble_.Clear();
}

void Sender::StartOver() {
  backoff_.Reset();
  aborts_ = 0;
}

// The second sink may well go down and up with each refusal of the topic that a side lane tries there: that ends only
// the back-off from trouble of the sink.
void Sender::OnUp(SinkUse sink) {
  if (state_ == SendState::kBackingOff && (sink == SinkUse::kMain || pause_ == Pause::kSecondSink)) {
    next_try_ = 0;
  }
}

void Sender::OnSinkReplaced(SinkUse sink) {
  if (source_->outstanding() > 0 && at_ == sink) {
    meter_->Unknown(source_->outstanding());
    source_->ForgetSent();
    if (state_ != SendState::kStopped) {
      cut_ = std::max(cut_, Cut::kAborted);
      state_ = SendState::kDraining;
    }
  }
  if (at_ == sink) {
    StartOver();
  }
  OnUp(sink);
}

void Sender::OnSinkClosed() {
  if (source_->outstanding() > 0) {
    meter_->Unknown(source_->outstanding());
    source_->ForgetSent();
    cut_ = std::max(cut_, Cut::kClosed);
    state_ = SendState::kDraining;
  }
}

bool Sender::OnSinkDied(SinkUse sink, SinkDeath death) {
  const bool under_way = at_ == sink && (source_->outstanding() > 0 || cut_ != Cut::kNothing);
  if (under_way && HadRecords(death)) {
    cut_ = std::max(cut_, death == SinkDeath::kKilled ? Cut::kKilled : Cut::kDied);
  }
  return under_way;
}

void Sender::OnOverdue(const Error& error, const TurnContext& turn) {
  trouble_.Note(error, turn.clock->WallMicros());
  watchdog_.Reset();
}

// --- settling ----------------------------------------------------------------------------------------------------

void Sender::Settle(const TurnContext& turn) {
  ++epoch_;
  state_ = SendState::kHalted;
  if (source_->prefix() > trouble_at_) {
    StartOver();
  }
  const std::vector<Failure> failures = std::exchange(failures_, {});
  const Error* trouble = nullptr;  // the destination's
  uint64_t lowest = UINT64_MAX;
  for (const Failure& failure : failures) {
    if (!source_->Waits(failure.ordinal)) {
      continue;
    }
    const Meaning meaning = MeaningOf(failure.error.error_class);
    const Verdict verdict = failure.alone ? meaning.alone : meaning.together;
    switch (verdict) {
      case Verdict::kDead:
      case Verdict::kCharge:
      case Verdict::kLater:
        source_->Refuse(failure.ordinal, failure.error, verdict, turn);
        break;
      case Verdict::kAlone:
        suspects_.insert(failure.ordinal);
        break;
      case Verdict::kTopic:
        lowest = std::min(lowest, failure.ordinal);
        if (!source_->OnTopicTrouble(failure.ordinal, failure.error, turn)) {
          pause_ = Pause::kTopic;
        }
        break;
      case Verdict::kBackOff:
        lowest = std::min(lowest, failure.ordinal);
        trouble = &failure.error;
        break;
    }
  }
  if (lowest != UINT64_MAX) {
    trouble_at_ = lowest;
  }
  if (trouble != nullptr) {
    Trip(*trouble, turn);
  } else if (cut_ == Cut::kClosed || (failures.empty() && cut_ == Cut::kAborted)) {
    SettleAborted(turn);
  }
  if (at_ == SinkUse::kMain && destination_->breaker().probing(flow_)) {  // it has died of this, or the like
    Trip(Error(destination_->breaker().reason()), turn);
  }
  SettleDeath(!failures.empty(), turn);
  cut_ = Cut::kNothing;
}

// No event is at fault: sends again at once, unless that did not help the last time, or cannot help.
void Sender::SettleAborted(const TurnContext& turn) {
  const Breaker& breaker = destination_->breaker();
  // The second sink may have been closed meanwhile, because it took nothing: its reason is known still.
  const Error* main = destination_->down();
  const Error reason = at_ == SinkUse::kSecond ? destination_->retry().trouble() : main == nullptr ? Error() : *main;
  const bool down = !reason.ok();
  trouble_at_ = source_->prefix();
  if (aborts_++ > 0 || cut_ == Cut::kClosed || breaker.probing(flow_) || (down && at_ == SinkUse::kSecond)) {
    Trip(down ? reason : !breaker.closed() ? Error(breaker.reason()) : AbortedError(), turn);
  }
}

void Sender::NoteUnlessKnown(const Error& error, const TurnContext& turn) {
  if (trouble_.ok() || !IsAborted(error)) {
    trouble_.Note(error, turn.clock->WallMicros());
  }
}

void Sender::Trip(const Error& error, const TurnContext& turn) {
  NoteUnlessKnown(error, turn);
  Breaker& breaker = destination_->breaker();
  if (at_ == SinkUse::kSecond && !breaker.probing(flow_)) {
    pause_ = Pause::kSecondSink;
    return;
  }
  breaker.Trip(flow_, error, turn.now, turn.clock->WallMicros(), turn.clock->Random());
}

void Sender::Resume(const TurnContext& turn) {
  if (pause_ == Pause::kNone) {
    state_ = SendState::kFlowing;
    return;
  }
  next_try_ = turn.now + backoff_.Next(turn.clock->Random());
  state_ = SendState::kBackingOff;
}

void Sender::Flow() {
  state_ = SendState::kFlowing;
  pause_ = Pause::kNone;
}

void Sender::BackOff(const TurnContext& turn) {
  pause_ = Pause::kTopic;
  Resume(turn);
}

void Sender::Forget() {
  suspects_.clear();
  search_.Clear();
  failures_.clear();
  under_way_.clear();
}

// --- the sink's deaths -------------------------------------------------------------------------------------------

// `failed`: something was refused, so the sink has lived to say so.
void Sender::SettleDeath(bool failed, const TurnContext& turn) {
  PoisonTurns& turns = Turns();
  const bool tested = turns.holder() == flow_;
  if (tested) {
    turns.End(flow_, died(), turn.now);
  }
  std::vector<OrdinalRange> under_way = std::exchange(under_way_, {});
  if (!died()) {
    if (tested && failed && !search_.empty()) {
      search_.Drop();
    }
    return;
  }
  if (!tested) {
    std::sort(under_way.begin(), under_way.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    search_.OnDeath(under_way);
    return;
  }
  if (search_.empty() || !search_.OnTestDeath(cut_ == Cut::kKilled)) {
    return;
  }
  if (search_.killed()) {
    // No event is charged with what came from outside. But where it is the OOM killer, and it comes for what this event
    // takes, the others must get past it: it waits, and is tried at the second sink.
    source_->Refuse(search_.first(), KilledError(), Verdict::kLater, turn);
    search_.Drop();
    return;
  }
  const int64_t event = source_->Reading(search_.first());
  const bool blamed = Blames(event);
  if (!blamed && !turns.PutAside(event, turn.now)) {
    Trip({ErrorClass::kConfig, "SINK_DIED", "the sink's process dies whatever is sent"}, turn);
    return;
  }
  if (blamed) {
    source_->Refuse(search_.first(),
                    {ErrorClass::kMessage, "SINK_DIED", "the sink's process died of this event three times"},
                    Verdict::kDead, turn);
  } else {
    source_->Refuse(search_.first(),
                    {ErrorClass::kSolo, "SINK_DIED",
                     "the sink's process died of this event three times, and of another one before: perhaps it dies "
                     "whatever is sent"},
                    Verdict::kLater, turn);
  }
  search_.Drop();
}

// Of an event behind another one it is not known whether the process dies whatever is sent. It is at fault where the
// lanes' sink has died of it, too, and has delivered others since. One that is blamed there speaks for both sinks.
bool Sender::Blames(int64_t event) {
  if (at_ == SinkUse::kSecond) {
    return destination_->turns().TakeAccused(event) || Turns().Blame();
  }
  const bool blames = Turns().Blame();
  if (blames) {
    (void)destination_->retry().turns().Blame();
  }
  return blames;
}

void Sender::EndTest(bool goes_on, const TurnContext& turn) {
  PoisonTurns& turns = Turns();
  bool over = !goes_on;
  over = over || (state_ != SendState::kDraining && turns.Overdue(source_->outstanding() > 0, turn.now));
  if (!search_.empty()) {
    const uint64_t first = search_.first();
    search_.Pass(source_->prefix());
    over = over || search_.empty() || search_.first() != first;
  }
  if ((over || search_.empty()) && turns.holder() == flow_) {
    turns.End(flow_, false, turn.now);
  }
}

}  // namespace outbox::relay
