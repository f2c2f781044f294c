// When a lane wants its next step, and its status for the engine, for SideLanes and for views.
#include <algorithm>

#include "relay/lane/lane.h"

namespace outbox::relay {
namespace {

// Trouble that is the destination's, and that it is in still: its own word for it is newer than the lane's.
bool OfDestination(const Error& error, const Breaker& breaker) {
  return !breaker.closed() && !breaker.reason().ok() && MeaningOf(error.error_class).alone == Verdict::kBackOff;
}

}  // namespace

bool Lane::MayClaim() const {
  if (reader_.stopped()) {
    return false;  // its successors will: until then nothing of the route may be claimed
  }
  const Breaker& breaker = lane_.destination->breaker();
  const bool probes = lane_.pipeline.unresolved() == 0 && breaker.Admits(true) > 0;  // else the lane's own events do
  return !lane_.spec().paused() && (breaker.closed() || probes || breaker.probing(pump()->first_flow()));
}

bool Lane::Calm() const {
  return flows() && !topics_.leaving() && (lane_.destination->breaker().closed() || lane_.pipeline.empty());
}

bool Lane::Flows() const {
  return !topics_.trial().on() && !topics_.paused() && state() != LaneState::kBackingOff && phase_ != Phase::kStarting;
}

bool Lane::LetsClaim() const {
  return Flows() || (topics_.trial().waits_for_parked() && !topics_.paused());
}

const Snapshot* Lane::RestsAt() const {
  const bool rests =
      lane_.pipeline.empty() && !lane_.pipeline.at().target && phase_ != Phase::kStarting && !parker_.refusing();
  return rests ? &lane_.pipeline.at().base : nullptr;
}

// All that was due by turn.now has just been tried; what could not be done waits for an outcome or a wake.
int64_t Lane::NextTime(const TurnContext& turn) const {
  int64_t next = kNever;
  const auto at = [&](int64_t time) {
    if (time > turn.now) {
      next = std::min(next, time);
    }
  };
  if (phase_ == Phase::kGone) {
    return kNever;
  }
  at(lane_.log_retry.next_try());
  at(lane_.log_retry.forgets_at());
  at(acker_.retry().forgets_at());
  if (pump() != nullptr) {
    at(pump()->NextTime(turn));
  }
  if (phase_ == Phase::kReleasing) {
    at(acker_.retry().next_try());
    at(release_deadline_);
    return next;
  }
  at(acker_.SaveDue(turn, reader_.stopped()));
  if (sides() != nullptr) {
    at(sides()->NextTime(turn));
  }
  if (state() == LaneState::kBackingOff) {
    at(sender_.next_try());
  }
  if (flows()) {
    at(reader_.next_durable());
    at(reader_.next_poll());
    at(parker_.stands_until());
    if (topics_.trial().waits_for_parked()) {
      at(topics_.trial().park_at());
    }
    sender_.TestTimes(at);
  }
  return next;
}

void Lane::Fill(const TurnContext& turn, int64_t wall, LaneStatus* status) const {
  const Pipeline& pipeline = lane_.pipeline;
  status->id = id();
  status->server = lane_.destination->id();
  status->delivered_to = pipeline.done_to();
  // What a paused lane has read ahead goes nowhere.
  const LaneState now = state();
  status->inflight_count =
      static_cast<int64_t>(now == LaneState::kPaused ? pipeline.outstanding() : pipeline.unresolved());
  // One that is held back does not look when it is woken.
  const bool held = (careful() && pipeline.unresolved() > 0) || reader_.starved();
  status->caught_up = flows() && reader_.caught_up() && !pipeline.reading() && !(held && reader_.woken());
  ShowWaiting(wall, status);
  const Breaker& breaker = lane_.destination->breaker();
  // What is in flight is awaited; what could go waits for the destination, and so does a parked event that is due.
  const bool waits =
      (now == LaneState::kRunning && !breaker.probing(flow()) && pipeline.unresolved() > pipeline.outstanding()) ||
      (now == LaneState::kIdle && pump() != nullptr && pump()->waits(wall));
  const bool stopped = waits && !breaker.closed();
  status->state = stopped ? LaneState::kBackingOff : now;
  const Trouble& log_trouble = lane_.log_retry.trouble();
  const Trouble& save_trouble = acker_.retry().trouble();
  const ParkedQueue::Told parked = pump() == nullptr ? ParkedQueue::Told() : pump()->trouble(wall);
  int64_t try_at = now == LaneState::kBackingOff                         ? sender_.next_try()
                   : stopped && breaker.state() == Breaker::State::kOpen ? breaker.next_try()
                   : log_trouble.tells(wall)                             ? lane_.log_retry.next_try()
                   : save_trouble.tells(wall)                            ? acker_.retry().next_try()
                                                                         : 0;
  status->topic = parent() == nullptr ? nullptr : &topics_.side_topic();
  status->error = nullptr;
  status->of_destination = false;
  status->error_topic = parent() == nullptr ? nullptr : &topics_.refused_topic();
  status->error_since_unix = 0;
  const auto show = [status](const Trouble& trouble) {
    status->error = &trouble.error();
    status->error_since_unix = trouble.since_unix();
  };
  const auto show_destination = [&] {
    status->error = &breaker.reason();
    status->of_destination = true;
  };
  if (log_trouble.tells(wall)) {
    show(log_trouble);
  } else if (save_trouble.tells(wall)) {
    show(save_trouble);
  } else if (!sender_.trouble().ok()) {
    show(sender_.trouble());
    if (OfDestination(sender_.trouble().error(), breaker)) {
      show_destination();
    }
    status->error_topic = parent() == nullptr ? topics_.leaving_topic() : status->error_topic;
  } else if (stopped) {
    show_destination();
    status->error_since_unix = breaker.since_unix();
  } else if (sides() != nullptr && sides()->trouble().tells(wall)) {
    show(sides()->trouble());
    try_at = sides()->next_try();
  } else if (parked.trouble != nullptr) {
    show(*parked.trouble);
    status->error_topic = parked.topic;
    try_at = parked.next_try;
  }
  status->parked_topics.clear();
  if (pump() != nullptr) {
    for (const ParkedQueue::Told& told : pump()->TopicsInTrouble()) {
      status->parked_topics.push_back({told.topic, &told.trouble->error()});
    }
  }
  status->next_try_unix = try_at > turn.now ? wall + (try_at - turn.now) : 0;
  status->trouble.Set(status->error);
  status->sends_parked = parent() == nullptr && pump() != nullptr && pump()->waits(wall) && status->goes_on();
  status->retrying_count = pump() != nullptr ? pump()->outstanding() : 0;
  status->barrier_done = sides() == nullptr ? barrier_done() : sides()->BarrierDone(barrier_done());
  status->topics = static_cast<int32_t>(lane_.filter->topics());
}

void Lane::ShowWaiting(int64_t wall, LaneStatus* status) const {
  const Pipeline& pipeline = lane_.pipeline;
  const LaneLog::Found found = lane_.log->FoundAhead(wall);
  DueEvents waiting = pipeline.WaitingAt(wall);
  waiting.Add(found.events);
  status->waiting = static_cast<int64_t>(waiting.count);
  status->oldest = waiting.since;
  status->passed = pipeline.prefix();
  status->read = pipeline.read_to();
  status->figures = lane_.meter.place().figures;
  status->found_to.count = -1;
  if (phase_ != Phase::kStarting && !(pipeline.empty() && pipeline.at().target)) {  // what is done of a window that was
    status->found_to.Set(!found.whole          ? pipeline.newest_from()             // begun, no snapshot tells
                         : found.to != nullptr ? *found.to
                                               : pipeline.newest_to());
  }
}

LaneInternals Lane::Internals() const {
  return {lane_.pipeline.bytes(), pump() != nullptr ? pump()->held_keys() : 0};
}

}  // namespace outbox::relay
