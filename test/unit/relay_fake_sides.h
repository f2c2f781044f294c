// Side lanes as a server keeps them, for the engine's tests: relay_fakes.h with a SideLog.
#pragma once

#include "relay/common/side_log.h"
#include "relay_fakes.h"

namespace outbox::relay::fakes {

class FakeSideLog : public SideLog {
 public:
  explicit FakeSideLog(Server* server) : server_(server) {}

  Status LoadSides(std::vector<SideLane>* sides) override {
    if (server_->Fails("LoadSides")) {
      return server_->Trouble();
    }
    for (const auto& [number, side] : server_->sides) {
      sides->push_back(side.record);
    }
    return Status();
  }
  Status Fork(const SideLane& side, const Position& position, std::span<const Parking> parked,
              int64_t* next_due) override {
    if (server_->Fails("Fork")) {
      return server_->Trouble();
    }
    if (!server_->owned) {
      return Status().OfOwner(false);
    }
    for (const SideTopic& topic : side.topics) {
      for (auto it = server_->sides.begin(); it != server_->sides.end();) {
        std::erase_if(it->second.record.topics, [&](const SideTopic& other) { return other.topic == topic.topic; });
        it = it->second.record.topics.empty() ? server_->sides.erase(it) : std::next(it);
      }
    }
    server_->sides[side.side] = {side, position};
    forked += static_cast<int64_t>(parked.size());
    if (on_parked) {
      on_parked(parked);
    }
    *next_due = parked.empty() ? INT64_MAX : server_->clock()->WallMicros();
    return Status();
  }
  Status Rejoin(int32_t side, const Position& position) override {
    if (server_->Fails("Rejoin")) {
      return server_->Trouble();
    }
    if (server_->owned) {
      server_->position = position;
      server_->saves.push_back(position);
      server_->sides.erase(side);
    }
    return Status().OfOwner(server_->owned);
  }
  std::unique_ptr<LaneLog> OpenSide(int32_t side, const EventFilter* filter) override {
    auto made =
        std::make_unique<FakeLog>(server_, std::shared_ptr<const EventFilter>(filter, [](const EventFilter*) {}), side);
    return made;
  }

  int64_t forked = 0;  // rows parked by forks
  std::function<void(std::span<const Parking>)> on_parked;

 private:
  Server* server_;
};

}  // namespace outbox::relay::fakes
