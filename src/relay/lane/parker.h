// The events of one lane that are parked instead of sent [-]: those not due yet, those whose key waits behind a parked
// one or is paused, and those that were refused. README.md here, "Parked events".
// What is to be parked is committed before anything later of the lane is sent.
//
// Single-threaded. Owned by the lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "relay/common/call_retry.h"
#include "relay/common/outcomes.h"
#include "relay/common/turn.h"
#include "relay/lane/lane_context.h"

namespace outbox::relay {

// An event that is not sent but parked.
struct Diversion {
  uint64_t ordinal = 0;
  ParkedState state = ParkedState::kBlocked;
  int64_t due = 0;
  bool paused = false;  // its key is; else its key waits, or it is not due
  bool moves = false;   // its key waits for parked events that are being delivered
};

class Parker {
 public:
  explicit Parker(LaneContext* lane) : lane_(lane) {}
  Parker(const Parker&) = delete;
  Parker& operator=(const Parker&) = delete;

  // --- before sending ---
  // Call when keys became held or paused while their events may be in flight: these end before anything is parked.
  void Fence() { keys_ = Keys::kFence; }
  // Call before Diverts(). Returns false if nothing can be sent now, because of Fence() or because held keys have not
  // been read.
  bool CheckKeys();
  // Whether the event must not be sent now; then *diversion says why.
  bool Diverts(const Event& event, int64_t wall, Diversion* diversion) {
    return (event.deliver_at != 0 || keys_ == Keys::kHeld) && CheckDiverts(event, wall, diversion);
  }
  // Whether the lane stands still before an event that would be diverted, until more of what is parked of its key has
  // been delivered.
  bool Stands(const Diversion& diversion, int64_t now);
  int64_t stands_until() const { return stands_until_; }  // at most; may be past
  // So many events were sent.
  void OnSent(uint32_t count) { sent_ += count; }
  // Events are diverted in ascending order.
  void Divert(const Diversion& diversion) { diverted_.push_back(diversion); }
  bool full() const { return diverted_.size() >= kMaxDiverted; }
  bool diverting() const { return !diverted_.empty(); }
  // The diverted events will be read again.
  void ForgetDiverted() { diverted_.clear(); }
  CallResult ParkDiverted(TurnContext* turn);

  // --- refused ---
  void Refuse(uint64_t ordinal, Error error, Verdict verdict);
  // After all refusals of a round are known.
  void Arrange();
  bool refusing() const { return !refused_.empty(); }
  // Parks as many refused events as go into one transaction. Also kFailed while something that is in flight has to end
  // first.
  CallResult ParkRefused(TurnContext* turn);

 private:
  static constexpr size_t kMaxDiverted = 1000;  // in one transaction
  static constexpr size_t kMaxRefused = 256;    // in one transaction
  static constexpr int64_t kLongestStand = 2'000'000;
  static constexpr int64_t kGoes = 9;  // so many times as long

  enum class Keys : uint8_t {
    kFree,   // none is held or paused
    kHeld,   // some are: the key of each event is looked up
    kFence,  // see Fence()
  };
  struct Refusal {
    uint64_t ordinal;
    Error error;
    Verdict verdict;

    int attempts() const { return verdict == Verdict::kLater ? 0 : 1; }  // charged to the event
  };

  bool CheckDiverts(const Event& event, int64_t wall, Diversion* diversion);
  Parking MakeParking(const Refusal& refusal, const Event& event, const TurnContext& turn, Arena* arena);
  void ForgetOvertaken();

  LaneContext* const lane_;
  Keys keys_ = Keys::kFree;
  uint64_t late_holds_ = 0;  // of the queue, seen
  // Standing still; monotonic microseconds.
  uint64_t rests_ = 0;        // of the queue's moving keys, seen
  int64_t stands_since_ = 0;  // the first time since they rested, though it went on a little; 0: it has not
  int64_t stands_until_ = 0;
  int64_t goes_until_ = 0;           // until then it does not
  uint64_t sent_ = 0;                // since stands_since_
  uint64_t parked_ = 0;              // the same, behind moving keys
  std::vector<Diversion> diverted_;  // passed over; ascending
  std::deque<Refusal> refused_;      // ascending once arranged
};

}  // namespace outbox::relay
