// The engine and the sinks of its destinations: outcomes come in, health and deaths are judged, a sink that hangs or is
// configured anew is replaced.
#include <utility>

#include "relay/engine_impl.h"

namespace outbox::relay {

bool Engine::Impl::PollSinks(bool watch) {
  bool worked = false;
  for (const auto& [id, destination] : destinations) {
    results.clear();
    places.clear();
    const int64_t submitted = destination->submissions().oldest();
    destination->sink()->Poll(&results);
    destination->sink()->TakePlaces(&places);
    for (const sink::Result& result : results) {
      destination->submissions().Resolved(result.first_seq, result.count);
      auto found = flows.find(result.flow);
      if (found != flows.end()) {
        found->second->OnResult(result, turn);
      }
    }
    for (const sink::Place& place : places) {
      if (auto found = flows.find(place.flow); found != flows.end()) {
        found->second->OnPlace(place);
      }
      destination->CheckPlace(/*second=*/false, place, submitted, turn.now, turn.clock->WallMicros());
    }
    worked |= !results.empty();
    worked |= CheckServer(destination.get());
    worked |= CheckHealth(destination.get());
    worked |= PollRetrySink(destination.get());
    Breaker& breaker = destination->breaker();
    if (std::exchange(destination->was_closed, breaker.closed()) != breaker.closed() && breaker.closed()) {
      ForQueuesOf(destination.get(), [](ParkedQueue* queue) { queue->OnDestinationUp(); });
      worked = true;
    }
    if (destination->TakeRecovered()) {
      breaker.OnUp(turn.now, turn.clock->WallMicros());
      ForLanesOf(destination.get(), [](Lane* lane) { lane->OnUp(SinkUse::kMain); });
      worked = true;
    }
    GiveTurns(destination.get());
    if (watch) {
      worked |= WatchSink(destination.get(), SinkUse::kMain);
      worked |= WatchSink(destination.get(), SinkUse::kSecond);
    }
  }
  return worked;
}

// Goes through the lanes only where the sink has come to a server: this is called in every turn.
bool Engine::Impl::CheckServer(Destination* destination) {
  std::vector<CheckedLane*> met;
  if (destination->sink()->awaits_admission()) {
    ForLanesOf(destination, [&](Lane* lane) { met.push_back(lane); });
  }
  return destination->server_check().Step(destination->sink(), met, &turn);
}

// Handles deaths of the lanes' sink, and tells the breaker whether it can be used.
bool Engine::Impl::CheckHealth(Destination* destination) {
  const sink::Health& health = destination->health();
  const Error* const down = destination->down();
  Breaker& breaker = destination->breaker();
  bool worked = false;
  const auto trip = [&](const Error& error) {
    breaker.Trip(0, error, turn.now, turn.clock->WallMicros(), turn.clock->Random());
    worked = true;
  };
  if (const SinkDeath death = destination->TakeDeath(); death != SinkDeath::kNone) {
    bool under_way = false;
    ForLanesOf(destination, [&](Lane* lane) { under_way |= lane->OnSinkDied(death); });
    // Then no event is to blame; one that cannot even start has a reason that will not go by itself, if nobody killed
    // it.
    if (!under_way) {
      trip({death == SinkDeath::kUnready ? ErrorClass::kConfig : ErrorClass::kDestination,
            health.error.code == "SINK_HUNG" ? "SINK_HUNG" : "SINK_DIED",
            health.error.ok() ? "the sink process ended with nothing to do" : health.error.message});
    }
    worked = true;
  }
  if (down != nullptr && breaker.closed()) {
    trip(*down);
  } else if (down != nullptr && !worked && (down != &health.error || health.changes != destination->explained)) {
    breaker.Explain(*down);
  }
  destination->explained = health.changes;
  for (const bool second : {false, true}) {
    const uint32_t late = breaker.late(second);
    if (late != 0 && !breaker.probing(late) && Outstanding(late) == 0) {
      breaker.Forget(late);
    }
  }
  if (down != nullptr) {
    breaker.GiveUp(*down, turn.now, turn.clock->WallMicros(), turn.clock->Random());
  } else {
    breaker.PassOn(turn.now);
    if (breaker.state() == Breaker::State::kHalfOpen && !destination->sink()->awaits_admission() &&
        HasNothingToSend(destination)) {
      breaker.Rest(turn.now, turn.clock->WallMicros());
    }
  }
  breaker.OnTime(turn.now, turn.clock->WallMicros());
  return worked;
}

// Neither a lane nor a queue of parked events has anything that could go.
bool Engine::Impl::HasNothingToSend(const Destination* destination) {
  bool nothing = true;
  ForLanesOf(destination, [&](Lane* lane) {
    nothing &= !lane->active() && (lane->pump() == nullptr || !lane->pump()->waits(turn.clock->WallMicros()));
  });
  return nothing;
}

// A suspected event is tested when the others' events are no longer in flight at that sink, or have been for a while
// without killing its process.
void Engine::Impl::GiveTurns(Destination* destination) {
  if (const uint32_t holder = destination->turns().holder(); holder != 0) {
    uint64_t others = 0;
    ForLanesOf(destination,
               [&](Lane* lane) { others += lane->flow() == holder ? 0 : lane->outstanding(SinkUse::kMain); });
    destination->turns().SetQuiet(others == 0, turn.now);
  }
  if (const uint32_t holder = destination->retry().turns().holder(); holder != 0) {
    const uint64_t others = destination->retry().under_way() - Outstanding(holder);
    destination->retry().turns().SetQuiet(others == 0, turn.now);
  }
}

// The second sink is admitted only to the server run that the lanes' sink is at. A server can change (it was a replica
// for a moment) and only one of the two be disconnected: then the other, which goes on under the earlier run or has
// nothing to send, asks again which server answers. What came until now belongs to the earlier run.
void Engine::Impl::MeetTogether(Destination* destination) {
  RetrySink& retry = destination->retry();
  const ServerCheck& check = destination->server_check();
  if (destination->sink()->awaits_admission()) {
    return;
  }
  const bool awaits = retry.sink()->awaits_admission();
  if (awaits && retry.sink()->identity()->server_run == check.server_run()) {
    retry.Admit(check.server_run(), check.put_back());
  } else if (awaits && retry.MayAskAgain(turn.now)) {
    destination->sink()->IdentifyAgain();
  } else if (!awaits && !retry.server_run().empty() && retry.server_run() != check.server_run() &&
             retry.MayAskAgain(turn.now)) {
    retry.sink()->IdentifyAgain();
  }
}

bool Engine::Impl::PollRetrySink(Destination* destination) {
  RetrySink& retry = destination->retry();
  if (retry.sink() == nullptr) {
    return false;
  }
  results.clear();
  places.clear();
  const int64_t submitted = retry.submissions().oldest();
  retry.sink()->Poll(&results);
  retry.sink()->TakePlaces(&places);
  for (const sink::Result& result : results) {
    retry.submissions().Resolved(result.first_seq, result.count);
    if (ParkedQueue* queue = QueueOf(result.flow)) {
      queue->OnResult(result, turn);
    } else if (auto found = flows.find(result.flow); found != flows.end()) {
      found->second->OnResult(result, turn);  // a side lane finds out whether its topic works again
    }
  }
  for (const sink::Place& place : places) {
    if (ParkedQueue* queue = QueueOf(place.flow)) {
      queue->OnPlace(place, retry.server_run());
    } else if (auto found = flows.find(place.flow); found != flows.end()) {
      found->second->OnPlace(place);
    }
    destination->CheckPlace(/*second=*/true, place, submitted, turn.now, turn.clock->WallMicros());
  }
  destination->KeepLost(turn.now);
  MeetTogether(destination);
  if (!results.empty()) {
    uint64_t count = 0;
    bool answered = false;
    for (const sink::Result& result : results) {
      count += result.count;
      answered |= result.outcome != sink::Outcome::kAborted;
    }
    retry.Heard(count, turn.now);
    if (answered) {
      retry.warning().OnAnswer();
    } else if (const Error why = retry.trouble(); !why.ok()) {
      retry.warning().OnRefusal(why, destination->breaker().closed(), turn.now);
    }
  }
  const SinkDeath death = destination->TakeSecondDeath();
  if (death != SinkDeath::kNone) {
    ForLanesOf(destination, [&](Lane* lane) { lane->OnSecondSinkDied(death); });
    ForQueuesOf(destination, [&](ParkedQueue* queue) { queue->OnSinkDied(death); });
  }
  if (retry.TakeRecovered()) {
    ForLanesOf(destination, [](Lane* lane) { lane->OnUp(SinkUse::kSecond); });
    return true;
  }
  return death != SinkDeath::kNone || !results.empty();
}

// A sink that never gives an outcome is recreated (its process is killed): what was in flight counts as aborted, and is
// sent again. Said in the lanes, and in the destination's warning.
bool Engine::Impl::WatchSink(Destination* destination, SinkUse use) {
  const bool retry = use == SinkUse::kSecond;
  const sink::Sink* sink = retry ? destination->retry().sink() : destination->sink();
  const bool well = sink != nullptr && sink->health().up && !sink->awaits_admission();
  const bool silent = well && !sink->health().sending;
  std::vector<Lane*> lanes_overdue;
  std::vector<ParkedQueue*> queues_overdue;
  uint64_t count = 0;
  bool back = false;
  ForLanesOf(destination, [&](Lane* lane) {
    back |= lane->WantsBack(use);
    if (lane->Overdue(use, silent, turn.now)) {
      lanes_overdue.push_back(lane);
      count += lane->outstanding(use);
    }
    if (retry && lane->pump() != nullptr && lane->pump()->Overdue(silent, turn.now)) {
      queues_overdue.push_back(lane->pump());
      count += lane->pump()->outstanding();
    }
  });
  if (back && sink != nullptr && !well) {
    TakeBack(destination, use);
    return true;
  }
  if (count == 0) {
    return false;
  }
  const Error error{ErrorClass::kDestination, "NO_OUTCOME",
                    "the sink said nothing about " + std::to_string(count) +
                        " events for a minute though it is up; it was started again"};
  for (Lane* lane : lanes_overdue) {
    lane->OnOverdue(error, turn);
  }
  for (ParkedQueue* queue : queues_overdue) {
    queue->OnOverdue(error, turn);
  }
  destination->CountRenewal(error, turn.now);
  if (retry) {
    CloseRetrySink(destination);
  } else {
    Swap(destination);
  }
  return true;
}

// What was paused would be written the moment the destination is there again: the sink has it, and cannot be asked to
// give it back. It is closed, and another one, which has nothing, waits for the destination. The breaker knows what it
// knew.
void Engine::Impl::TakeBack(Destination* destination, SinkUse use) {
  if (use == SinkUse::kSecond) {
    CloseRetrySink(destination);
    return;
  }
  destination->Swap();
  ForLanesOf(destination, [&](Lane* lane) {
    destination->breaker().Forget(lane->flow());
    lane->OnSinkReplaced(SinkUse::kMain);
  });
}

void Engine::Impl::CloseRetrySink(Destination* destination) {
  destination->CloseSecond();
  ForLanesOf(destination, [](Lane* lane) { lane->OnSinkReplaced(SinkUse::kSecond); });
  ForQueuesOf(destination, [](ParkedQueue* queue) { queue->OnSinkClosed(); });
}

void Engine::Impl::Swap(Destination* destination) {
  destination->Swap();
  destination->breaker().Reset(turn.now, turn.clock->WallMicros());
  ForLanesOf(destination, [](Lane* lane) { lane->OnSinkReplaced(SinkUse::kMain); });
}

void Engine::Impl::SwapSinks() {
  for (const auto& [id, destination] : destinations) {
    destination->retry().Look(turn.now);
    if (destination->retry().Expired(turn.now)) {
      if (destination->breaker().closed() && destination->retry().accepting()) {
        destination->retry().WarnOfSilence(turn.now);
      }
      CloseRetrySink(destination.get());
    }
    if (!destination->replacing()) {
      continue;
    }
    uint64_t outstanding = 0;
    ForLanesOf(destination.get(), [&](Lane* lane) { outstanding += lane->outstanding(SinkUse::kMain); });
    if (outstanding == 0 || destination->down() != nullptr || turn.now >= destination->drain_deadline()) {
      Swap(destination.get());
    }
  }
}

}  // namespace outbox::relay
