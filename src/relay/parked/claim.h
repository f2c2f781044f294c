// The parked events that a lane has claimed, as a source of its sender [-]: at most one submission is in flight. What
// is ready goes at once, except suspects and what is behind an event of its key; when nothing else is left, the first
// suspect goes alone.
//
// A key's events go under a flow of their own, so that one that is refused aborts no other, and its place is known. An
// event behind one of its key that was not delivered is given back: what became of that one is committed first.
//
// Single-threaded; owned by a ParkedQueue. An event's ordinal is its place in the claim.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/record_format.h"
#include "relay/common/meter.h"
#include "relay/common/parked_log.h"
#include "relay/common/topic_backoffs.h"
#include "relay/common/turn.h"
#include "relay/send/send_source.h"
#include "relay/send/sender.h"

namespace outbox::relay {

class Claim final : public SendSource {
 public:
  static constexpr uint32_t kMaxEvents = ClaimLimits::kMostEvents;

  // Submits under the flows from `first_flow` on, kMaxEvents of them.
  Claim(uint32_t first_flow, TopicBackoffs* topics, Meter* meter)
      : first_flow_(first_flow), topics_(topics), meter_(meter) {}

  // Takes the events. Those that are paused are given back at once: with a key as they are, for the table keeps them
  // back from then on, and true is returned; without one (a refused copy of a replay) they are due again at `later`.
  bool Begin(ClaimedChunk chunk, format::RecordFormat* format, int64_t later);
  bool any_ready() const;
  // Submits what may go now; nothing is in flight. Returns whether it did any work.
  bool Send(Sender* sender, format::RecordFormat* format, TurnContext* turn);
  // All that was sent has its outcome: notes where what was delivered is.
  void EndSubmission();
  // Events behind one of their key that was not delivered.
  void GiveBackFollowers();
  // Events of topics that back off.
  void GiveBackTopics(int64_t now);
  void GiveBackAll();
  // What became of each event; its views are valid until End().
  std::vector<Settlement> Outcomes() const;
  void End();
  // How often an event is tried, and when.
  void SetPolicy(const format::RetryPolicy& policy) { policy_ = policy; }

  uint32_t outstanding() const override { return outstanding_; }
  OldestRecord oldest() const override {
    return outstanding_ == 0 ? OldestRecord{} : OldestRecord{first_seq_, outstanding_};
  }
  uint32_t Resolve(uint64_t first_seq, uint32_t count, bool delivered, std::vector<OrdinalRange>* undone) override;
  void ForgetSent() override;
  uint64_t next() override { return UINT64_MAX; }
  uint64_t prefix() const override { return 0; }
  bool Waits(uint64_t ordinal) const override {
    return ordinal < items_.size() && items_[ordinal].state != ItemState::kDecided;
  }
  int64_t Reading(uint64_t ordinal) const override {
    return Waits(ordinal) ? chunk_.events[ordinal].event.created_at : 0;
  }
  void Refuse(uint64_t ordinal, const Error& error, Verdict verdict, const TurnContext& turn) override;
  bool OnTopicTrouble(uint64_t ordinal, const Error& error, const TurnContext& turn) override;

  // Where the events are that were sent under `place.flow`, by which run of the server.
  void AddPlace(const sink::Place& place, const std::string& server_run) { places_.push_back({place, server_run}); }

 private:
  enum class ItemState : uint8_t { kReady, kSent, kDecided };
  struct Item {
    ItemState state = ItemState::kReady;
    uint32_t flow = 0;  // number of the first item of its key
    Settlement settlement;
    std::string topic;    // resolved
    int64_t sent_at = 0;  // monotonic, for the meter
  };

  // Leaves it ready, as yet, where the route's options may be older than the event.
  void SendOne(uint32_t i, Sender* sender, format::RecordFormat* format, TurnContext* turn);
  struct Acknowledged {
    sink::Place place;
    std::string server_run;
  };
  void NotePlace(bool alone, Item* item) const;
  static void Decide(Item* item, ParkedOutcome outcome);

  const uint32_t first_flow_;
  TopicBackoffs* const topics_;
  Meter* const meter_;
  format::RetryPolicy policy_;
  ClaimedChunk chunk_;
  OptionsDoubt doubt_;
  std::vector<Item> items_;
  std::vector<uint32_t> sent_;  // items in submission order; the first has seq first_seq_
  uint64_t first_seq_ = 0;
  uint32_t outstanding_ = 0;
  std::vector<Acknowledged> places_;
};

}  // namespace outbox::relay
