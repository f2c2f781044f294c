// What the engine needs to park events of one lane and to send them later [-]. Implemented by parked/ over
// outbox_internal.parked, by fakes in unit tests. The states: README.md here, "Parked events".
//
// Single-threaded. Every call is one short transaction; nothing is open when it returns. A failed Status means "nothing
// happened, try again later", or, with code kNotOwner, that the lane is no longer this worker's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/event.h"
#include "base/status.h"
#include "format/record_format.h"
#include "format/route_spec.h"

namespace outbox::relay {

enum class ParkedState : uint8_t {
  kRetrying,   // tried (again) at `due`
  kBlocked,    // behind an event of its key, or its key is paused
  kScheduled,  // to be delivered at `due`
  kDead,       // not tried again until an operator redrives it
  kLast = kDead,
};

// Whether an event in this state has a time at which it is sent.
inline bool HasDue(ParkedState state) {
  return state == ParkedState::kRetrying || state == ParkedState::kScheduled;
}

// Whether later events of its key wait behind an event in this state. (Among rows: schema/44_keys.sql.)
inline bool HoldsKey(ParkedState state, format::OnFailure on_failure) {
  switch (state) {
    case ParkedState::kRetrying:
    case ParkedState::kBlocked:
      return true;
    case ParkedState::kScheduled:
      return false;
    case ParkedState::kDead:
      break;
  }
  return on_failure == format::OnFailure::kBlock;
}

// An event on its way into the table.
struct Parking {
  Event event;             // views into the engine's chunk; valid for the call
  std::string_view topic;  // resolved; empty where it could not be
  uint64_t order_key = 0;  // base/order_key.h; 0: no key
  ParkedState state = ParkedState::kDead;
  int64_t due = 0;      // Unix microseconds; see HasDue()
  int attempts = 0;     // how often it was refused
  Error error;          // why; ok() for kBlocked and kScheduled
  bool paused = false;  // kBlocked because its key is paused, not because of an event before it
};

// An event taken out to be sent.
struct Claimed {
  Event event;  // views into the chunk; topic: the event's own, replay header included in its headers
  int64_t replay = 0;
  uint64_t order_key = 0;
  ParkedState state = ParkedState::kRetrying;  // or kScheduled
  int attempts = 0;                            // how often it was refused
};

// Owns the bytes of its events.
struct ClaimedChunk {
  Arena arena;
  std::vector<Claimed> events;
  // WAL position that must be durable before any of them is sent, as Window::durable_lsn: what sessions did to them
  // may have been committed without waiting for the standbys.
  uint64_t durable_lsn = 0;
};

struct ClaimLimits {
  static constexpr uint32_t kMostEvents = 256;  // of a claim, and so of a key in it
  int64_t now = 0;                              // Unix microseconds: what is due
  size_t max_events = kMostEvents;
  size_t max_bytes = size_t{512} << 10;  // at least one event is taken
  std::vector<std::string> without;      // topics that have left the lane: nothing of them
};

// What became of a claimed event.
enum class ParkedOutcome : uint8_t {
  kDelivered,
  kRetry,     // charged: attempts, error, due; events of its key behind it wait
  kDead,      // charged: a dead letter; under `skip` its key goes on
  kGiveBack,  // not charged: as it was, due at `due` (0: unchanged); an error is noted
};

// Whether it makes later events of the key wait. kGiveBack changes nothing: no.
inline bool HoldsKey(ParkedOutcome outcome, format::OnFailure on_failure) {
  return (outcome == ParkedOutcome::kRetry && HoldsKey(ParkedState::kRetrying, on_failure)) ||
         (outcome == ParkedOutcome::kDead && HoldsKey(ParkedState::kDead, on_failure));
}

struct Settlement {
  const Claimed* claimed = nullptr;
  ParkedOutcome outcome = ParkedOutcome::kGiveBack;
  int attempts = 0;
  int64_t due = 0;  // Unix microseconds
  Error error;
  std::string_view topic;  // resolved
  std::string place;       // kDelivered: partition and offset, or stream id; empty: unknown
  // kDelivered, by a destination whose server says which run of it answers: by which, and the stream id of the event,
  // or of the last one of its key that was sent with it.
  std::string server_run;
  std::string acknowledged;
  int64_t sent_at = 0;  // Unix microseconds
};

class ParkedLog {
 public:
  virtual ~ParkedLog() = default;

  // The order keys of this lane whose later events must be parked behind what is parked already: rows retrying or
  // blocked, under `block` dead ones too. Called when the lane begins, and later, with nothing claimed, when another
  // session may have changed parked events: what no longer waits behind anything begins to retry. *next_due: when
  // something falls due, Unix microseconds; INT64_MAX: nothing. `renamed`: topics have other names since the last call;
  // what was parked under others gets the topics and keys of `format` first. (When the lane begins, what a predecessor
  // left so.)
  virtual Status LoadHeld(format::RecordFormat* format, bool renamed, std::vector<uint64_t>* keys,
                          int64_t* next_due) = 0;

  // Idempotent per route, event and replay. An event to be blocked whose key nothing holds any more (an operator acted
  // on it) becomes retrying, due at once, unless it is `paused`. *next_due as above.
  virtual Status Park(std::span<const Parking> events, int64_t* next_due) = 0;

  // Takes events that are due, at most one run per key, in the order they have to go (those of one key in created_at
  // order), and marks them as being sent by this worker. What an earlier call took must have been settled.
  virtual Status Claim(const ClaimLimits& limits, ClaimedChunk* chunk, int64_t* next_due) = 0;

  // Applies the outcomes and lets go those that wait behind the ones that left. Appends the keys that nothing holds any
  // more. All of the last claim at once, or part of it.
  virtual Status Settle(std::span<const Settlement> outcomes, std::vector<uint64_t>* freed, int64_t* next_due) = 0;
};

}  // namespace outbox::relay
