// What an outcome means for an event, by the class of its error [-]. One table, for events of the log and for parked
// ones; README.md here, "What an outcome means", says it in words.
#pragma once

#include <cstdint>

#include "base/backoff.h"
#include "base/status.h"
#include "format/route_spec.h"
#include "relay/common/parked_log.h"

namespace outbox::relay {

enum class Verdict : uint8_t {
  kDead,     // charged to the event: a dead letter
  kAlone,    // perhaps another event's fault: sent again, with nothing else in flight
  kCharge,   // charged to the event: it waits for its next attempt, or is dead when it has had all
  kLater,    // charged to no event: it waits, and is tried later
  kTopic,    // charged to no event: its topic leaves the lane, or backs off by itself
  kBackOff,  // charged to no event: sent again in order when the destination lets it
};

struct Meaning {
  Verdict together;  // for an event that was sent with others
  Verdict alone;
  bool answers;  // the destination works: it has looked at the record, or at least at its topic
};

inline Meaning MeaningOf(ErrorClass error_class) {
  switch (error_class) {
    case ErrorClass::kMessage:
      return {Verdict::kDead, Verdict::kDead, true};
    case ErrorClass::kSolo:
      return {Verdict::kAlone, Verdict::kCharge, true};
    case ErrorClass::kTopic:
      return {Verdict::kTopic, Verdict::kTopic, true};
    case ErrorClass::kDestination:
    case ErrorClass::kConfig:
    case ErrorClass::kFatalClient:
    case ErrorClass::kInternal:
    case ErrorClass::kNone:
      break;
  }
  return {Verdict::kBackOff, Verdict::kBackOff, false};
}

// What becomes of an event that was refused `attempts` times: it is retrying (due says when) or dead.
struct Consequence {
  ParkedState state = ParkedState::kDead;
  int64_t due = 0;  // Unix microseconds
};
inline Consequence ConsequenceOf(Verdict verdict, int attempts, const format::RetryPolicy& policy, int64_t wall,
                                 uint64_t random) {
  if (verdict == Verdict::kDead || (verdict == Verdict::kCharge && attempts >= policy.max_attempts)) {
    return {};
  }
  return {ParkedState::kRetrying, wall + Backoff::Delay(policy.backoff_base, policy.backoff_cap, attempts, random)};
}

}  // namespace outbox::relay
