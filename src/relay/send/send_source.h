// What a Sender sends from [-]: the events of a lane in order (lane_source.h), or a claim of parked events (claim.h).
// The source knows its events and what becomes of them, the sender what an outcome means. Events are ordinals.
#pragma once

#include <cstdint>
#include <vector>

#include "relay/common/ordinals.h"
#include "relay/common/outcomes.h"
#include "relay/common/turn.h"
#include "relay/common/watchdog.h"

namespace outbox::relay {

class SendSource {
 public:
  virtual ~SendSource() = default;

  // --- in flight ---
  virtual uint32_t outstanding() const = 0;
  virtual OldestRecord oldest() const = 0;
  // The outcome of the events that were sent under these numbers, as far as they are still in flight. Those that were
  // not delivered are to be sent again, and are appended to *undone. Returns how many events it applied to.
  virtual uint32_t Resolve(uint64_t first_seq, uint32_t count, bool delivered, std::vector<OrdinalRange>* undone) = 0;
  // What is in flight will have no outcome: it is to be sent again.
  virtual void ForgetSent() = 0;
  // The ordinal of the first event that is to be sent; UINT64_MAX: none.
  virtual uint64_t next() = 0;

  // --- settling: nothing is in flight ---
  // All events before this are done; 0 where the source has no order.
  virtual uint64_t prefix() const = 0;
  // Whether the event still waits: it was neither delivered, nor parked, nor given up.
  virtual bool Waits(uint64_t ordinal) const = 0;
  // The event's reading of the clock, while it waits; 0: it does not.
  virtual int64_t Reading(uint64_t ordinal) const = 0;
  // kDead and kCharge are charged to the event, kLater is not. The event is not sent again before that is recorded.
  virtual void Refuse(uint64_t ordinal, const Error& error, Verdict verdict, const TurnContext& turn) = 0;
  // The topic of the event is in trouble. Returns false if nothing can be done about it but to back off.
  virtual bool OnTopicTrouble(uint64_t ordinal, const Error& error, const TurnContext& turn) = 0;
};

}  // namespace outbox::relay
