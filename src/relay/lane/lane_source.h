// The events of a lane as a source of its sender [-]: packs them in order, passes over those that are parked instead,
// and tells the lane's parts what became of them.
//
// Single-threaded. Owned by the lane, as are the parts it is made with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "relay/lane/acker.h"
#include "relay/lane/in_flight_limit.h"
#include "relay/lane/lane_context.h"
#include "relay/lane/parker.h"
#include "relay/lane/reader.h"
#include "relay/lane/topics.h"
#include "relay/send/send_source.h"
#include "relay/send/sender.h"

namespace outbox::relay {

class LaneSource final : public SendSource {
 public:
  LaneSource(LaneContext* lane, Acker* acker, Reader* reader, Parker* parker, Topics* topics)
      : lane_(lane), acker_(acker), reader_(reader), parker_(parker), topics_(topics) {}

  // Submits what may go now, one batch at most. The sender is flowing.
  StepResult Send(Sender* sender, TurnContext* turn);

  uint32_t outstanding() const override { return lane_->pipeline.outstanding(); }
  OldestRecord oldest() const override { return lane_->pipeline.oldest(); }
  uint32_t Resolve(uint64_t first_seq, uint32_t count, bool delivered, std::vector<OrdinalRange>* undone) override;
  void ForgetSent() override { lane_->pipeline.ForgetSent(); }
  uint64_t next() override;
  uint64_t prefix() const override { return lane_->pipeline.prefix(); }
  bool Waits(uint64_t ordinal) const override { return lane_->pipeline.Find(ordinal) != nullptr; }
  int64_t Reading(uint64_t ordinal) const override {
    const Event* event = lane_->pipeline.Find(ordinal);
    return event == nullptr ? 0 : event->created_at;
  }
  void Refuse(uint64_t ordinal, const Error& error, Verdict verdict, const TurnContext& turn) override;
  bool OnTopicTrouble(uint64_t ordinal, const Error& error, const TurnContext& turn) override;

 private:
  // What one call of Pack has come to.
  struct Packed {
    std::string records;
    uint32_t count = 0;
    bool passed_over = false;  // an event whose key waits, of a topic that is tried
    bool worked = false;       // something else than packing was done
  };
  CallResult ParkDiverted(TurnContext* turn);
  Packed Pack(Sender* sender, uint64_t stop, uint32_t room, TurnContext* turn);
  uint32_t Format(const EventSpan& span, int64_t wall, std::string* records, Error* bad, Diversion* diversion,
                  bool* paused);

  LaneContext* const lane_;
  Acker* const acker_;
  Reader* const reader_;
  Parker* const parker_;
  Topics* const topics_;
  InFlightLimit limit_;
  OptionsDoubt doubt_;
  size_t record_bytes_ = 512;  // mean size of a packed record, of the last batch
};

}  // namespace outbox::relay
