#include "relay/lane/lane_source.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/fault_point.h"

namespace outbox::relay {

namespace {

constexpr uint64_t kNowhere = UINT64_MAX;

}  // namespace

StepResult LaneSource::Send(Sender* sender, TurnContext* turn) {
  TopicTrial& trial = topics_->trial();
  const Admission admission = sender->Admits(trial.on() ? SinkUse::kSecond : SinkUse::kMain, *turn);
  const uint32_t admitted = std::min(admission.count, trial.limit());
  if (admitted == 0) {
    return admission.took_turn ? StepResult::kWorked : StepResult::kIdle;
  }
  if (const CallResult parked = ParkDiverted(turn); parked != CallResult::kDone || !parker_->CheckKeys()) {
    return parked == CallResult::kLost ? StepResult::kLost : StepResult::kIdle;
  }
  Pipeline& pipeline = lane_->pipeline;
  if (trial.on()) {
    pipeline.Rewind();
  }
  const uint32_t load = InFlightLimit::Load(pipeline.outstanding(), pipeline.outstanding_fresh());
  Packed packed = Pack(sender, admission.stop, std::min(limit_.Room(load, turn->now), admitted), turn);
  trial.SetWaits(packed.passed_over && packed.count == 0 && !parker_->refusing(), turn->now);
  if (packed.count > 0) {
    record_bytes_ = packed.records.size() / packed.count;
    parker_->OnSent(packed.count);
    if (OUTBOX_FAULT_FAILS("submit.before")) {
      throw std::bad_alloc();
    }
    sender->Submit(0, packed.count, std::move(packed.records), *turn);
    OUTBOX_FAULT_POINT("submit.after");
  }
  bool worked = packed.worked || packed.count > 0;
  if (parker_->diverting()) {
    const CallResult parked = ParkDiverted(turn);
    if (parked == CallResult::kLost) {
      return StepResult::kLost;
    }
    worked |= parked == CallResult::kDone;
  }
  return worked ? StepResult::kWorked : StepResult::kIdle;
}

CallResult LaneSource::ParkDiverted(TurnContext* turn) {
  if (!parker_->diverting()) {
    return CallResult::kDone;
  }
  const CallResult result = parker_->ParkDiverted(turn);
  if (result == CallResult::kDone) {
    acker_->OnResolved();
  }
  return result;
}

// Packs at most `room` events, of those before `stop`.
LaneSource::Packed LaneSource::Pack(Sender* sender, uint64_t stop, uint32_t room, TurnContext* turn) {
  Packed packed;
  Pipeline& pipeline = lane_->pipeline;
  const bool passes_over = topics_->trial().PassesOver(turn->now);
  const uint64_t first_seq = sender->next_seq();
  const int64_t wall = turn->clock->WallMicros();
  const int64_t sent_at = turn->clock->NowMicros();
  const size_t enough = lane_->destination->chunk_bytes();
  while (packed.count < room && packed.records.size() < enough && sender->flowing() && !parker_->full()) {
    EventSpan span = pipeline.NextSpan(room - packed.count);
    if (span.first >= stop) {
      break;
    }
    span.count = static_cast<uint32_t>(std::min<uint64_t>(span.count, stop - span.first));
    if (span.count == 0) {
      break;
    }
    const Durability durability = reader_->Durable(span.durable_lsn, turn);
    packed.worked |= durability == Durability::kFoundOut;
    if (durability == Durability::kNotYet) {
      break;
    }
    bool solo = false;
    if (sender->has_suspects()) {
      solo = sender->IsSuspect(span.first);
      span.count = sender->LimitToSuspects(span.first, span.count);
      if (span.count == 0) {
        break;
      }
    }
    Error bad;
    Diversion diversion{.ordinal = kNowhere};
    bool paused = false;
    const uint32_t count = Format(span, wall, &packed.records, &bad, &diversion, &paused);
    if (count > 0) {
      pipeline.MarkSent(span, count, first_seq + packed.count, sent_at);
      packed.count += count;
    }
    if (paused) {
      topics_->StopAt(span.events[count]);
      if (topics_->leaving()) {
        sender->Drain();
      }
      packed.worked = true;
      break;
    }
    if (diversion.ordinal != kNowhere && !topics_->trial().on() && parker_->Stands(diversion, turn->now)) {
      break;
    }
    if (diversion.ordinal != kNowhere) {
      pipeline.Skip(diversion.ordinal);
      if (passes_over && diversion.state == ParkedState::kBlocked && !diversion.paused) {
        packed.passed_over = true;
      } else {
        parker_->Divert(diversion);
      }
    } else if (!bad.ok()) {
      const uint64_t ordinal = span.first + count;
      if (doubt_.Holds(ordinal, pipeline.read_to(), turn)) {
        break;
      }
      const Verdict verdict = MeaningOf(bad.error_class).alone;
      parker_->Refuse(ordinal, std::move(bad), verdict);
      pipeline.Skip(ordinal);
      sender->Halt();
      packed.worked = true;
    } else if (solo) {
      sender->BeginSolo(span.first);
    }
  }
  return packed;
}

// Packs events until one cannot be sent at all (then *bad says why), one is to be parked (then *diversion says how),
// the topic of one is paused or the batch is large enough. Returns how many.
uint32_t LaneSource::Format(const EventSpan& span, int64_t wall, std::string* records, Error* bad, Diversion* diversion,
                            bool* paused) {
  const size_t enough = lane_->destination->chunk_bytes();
  records->reserve(std::min(records->size() + span.count * (record_bytes_ + record_bytes_ / 8), enough + enough / 4));
  format::RecordFormat* format = lane_->format.get();
  uint32_t count = 0;
  while (count < span.count && (count == 0 || records->size() < enough)) {
    const Event& event = span.events[count];
    *paused = topics_->Pauses(event);
    if (*paused) {
      break;
    }
    if (parker_->Diverts(event, wall, diversion)) {
      diversion->ordinal = span.first + count;
      break;
    }
    if (!format->Append(event, wall, records, bad)) {
      break;
    }
    ++count;
  }
  return count;
}

// --- outcomes ----------------------------------------------------------------------------------------------------

uint32_t LaneSource::Resolve(uint64_t first_seq, uint32_t count, bool delivered, std::vector<OrdinalRange>* undone) {
  const uint32_t resolved = lane_->pipeline.Resolve(first_seq, count, delivered, undone, &lane_->meter);
  if (resolved == 0) {
    return 0;
  }
  acker_->OnResolved();
  if (delivered) {
    limit_.OnDelivered(resolved);
    TopicTrial& trial = topics_->trial();
    if (!trial.on()) {
      trial.OnFlowing();
    } else if (outstanding() == 0) {
      trial.OnDelivered();
      lane_->pipeline.Rewind();  // to what was passed over
    }
  }
  return resolved;
}

uint64_t LaneSource::next() {
  const EventSpan span = lane_->pipeline.NextSpan(1);
  return span.count == 0 ? UINT64_MAX : span.first;
}

void LaneSource::Refuse(uint64_t ordinal, const Error& error, Verdict verdict, const TurnContext&) {
  parker_->Refuse(ordinal, error, verdict);
}

bool LaneSource::OnTopicTrouble(uint64_t ordinal, const Error& error, const TurnContext& turn) {
  switch (topics_->OnTrouble(ordinal, error, turn)) {
    case Topics::Answer::kLeaves:
      return true;
    case Topics::Answer::kParks:  // the others go on past it, event by event
      Refuse(ordinal, error, Verdict::kLater, turn);
      return true;
    case Topics::Answer::kStays:
      break;
  }
  return false;
}

}  // namespace outbox::relay
