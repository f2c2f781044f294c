#include "relay/lane/reader.h"

#include <utility>

namespace outbox::relay {

namespace {

constexpr size_t kMaxWindows = 256;   // in flight at once: each holds two snapshots
constexpr uint32_t kMoveShares = 64;  // lanes that rest do not all move in one turn

}  // namespace

bool Reader::WantsWindow(const TurnContext& turn) const {
  return opens_ && lane_->pipeline.windows() < kMaxWindows &&
         (!caught_up() || woken_ || turn.barrier > barrier_opened_ || turn.now >= next_poll_);
}

bool Reader::Read(TurnContext* turn, bool careful, size_t chunk_bytes) {
  Pipeline& pipeline = lane_->pipeline;
  starved_ = false;
  if (!lane_->LogReady(*turn) || (!pipeline.reading() && !WantsWindow(*turn))) {
    return false;
  }
  if (careful && pipeline.unresolved() > 0) {
    return false;
  }
  if (!lane_->destination->MayRead(pipeline.bytes())) {
    starved_ = true;
    return false;
  }
  if (!pipeline.reading() && !OpenWindow(turn)) {
    return false;
  }
  EventChunk chunk;
  bool end = false;
  if (lane_->log_retry.Failed(lane_->log->ReadChunk(chunk_bytes, &chunk, &end), *turn, LogCall::kRead)) {
    return false;
  }
  acker_->NoteRows(lane_->log->saw_rows());
  Sift(&chunk);
  lane_->destination->Charge(pipeline.AddChunk(std::move(chunk), end));
  return true;
}

bool Reader::OpenWindow(TurnContext* turn) {
  Window window;
  bool opened = false;
  opened_version_ = lane_->filter->version();
  const Status status = lane_->log->OpenWindow(lane_->pipeline.ReadPosition(), &window, &opened);
  if (lane_->log_retry.Failed(status, *turn, LogCall::kOpen)) {
    return false;
  }
  woken_ = false;
  next_poll_ = turn->NextOf(turn->options->poll_micros);
  const int64_t poll = turn->options->poll_micros;
  next_move_ = turn->now + poll + poll * (lane_->flow % kMoveShares) / kMoveShares;
  horizon_ = opened && !window.current          ? Horizon::kBehind
             : !opened && lane_->log->stopped() ? Horizon::kStopped
                                                : Horizon::kCaughtUp;
  if (caught_up()) {
    barrier_opened_ = turn->barrier;
  }
  if (!opened) {
    if (!stopped() && !limited_) {
      lane_->pipeline.AddBarrier(turn->barrier);
    }
    return false;
  }
  lane_->meter.OpenedWindow();
  const uint64_t barrier = window.current ? turn->barrier : 0;
  lane_->pipeline.AddWindow(std::move(window), barrier);
  return true;
}

void Reader::Sift(EventChunk* chunk) const {
  const LaneFilter* filter = lane_->filter.get();
  if (lane_->is_side() || filter->version() != opened_version_) {
    std::erase_if(chunk->events, [filter](const Event& event) { return !filter->Takes(event); });
  }
}

Durability Reader::Durable(uint64_t lsn, TurnContext* turn) {
  return durable_.Look(lsn, lane_->log.get(), &lane_->log_retry, turn);
}

void Reader::ForgetDurable() {
  durable_.Forget(&lane_->log_retry);
}

bool Reader::HasRead(const Snapshot& snapshot) const {
  const Position position = lane_->pipeline.ReadPosition();
  return !lane_->pipeline.reading() && !position.target && position.base.Covers(snapshot);
}

}  // namespace outbox::relay
