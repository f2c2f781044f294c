// What the tests of the relay engine share: one lane to one destination, with a fake log, clock and sink.
#pragma once

#include "relay/engine.h"

#include <gtest/gtest.h>

#include <numeric>

#include "relay_fakes.h"

namespace outbox::relay {

using fakes::Broker;
using fakes::FakeClock;
using fakes::FakeLog;
using fakes::FakeSink;
using fakes::Pending;
using fakes::Row;
using fakes::Server;

constexpr DestinationId kDestination = 5;
constexpr LaneId kLane{1, 0};

class EngineTest : public ::testing::Test {
 protected:
  EngineTest() { Restart(); }

  // A new worker: engine and sink are new, server and broker are not.
  void Restart() {
    engine = std::make_unique<Engine>(&clock, options);
    engine->SetDestination(kDestination, MakeSinks(), 0);
    AddLane();
  }
  // As many as the engine asks for, counted from now on. `sink` is the newest.
  SinkFactory MakeSinks() {
    sinks = 0;
    return [this] {
      auto made = std::make_unique<FakeSink>(&broker, &server);
      sink = made.get();
      ++sinks;
      return made;
    };
  }
  void AddLane() {
    LaneLogs logs = fakes::Logs(&server, spec);
    log = static_cast<FakeLog*>(logs.log.get());
    ASSERT_TRUE(engine->AddLane(kLane, spec, std::move(logs), kDestination));
  }
  void SetSpec(format::RouteConfig config) {
    spec = fakes::Spec(std::move(config));
    engine->UpdateLane(kLane, spec);
  }
  int64_t Turn(bool woken = false, uint64_t barrier = 0) { return engine->Turn({woken, barrier}); }
  LaneStatus Status() {
    engine->Lanes(&statuses);
    return statuses.empty() ? LaneStatus{} : statuses[0];
  }
  LaneInternals Internals() {
    engine->Internals(&internals);
    return internals.empty() ? LaneInternals{} : internals[0];
  }
  std::string State() { return LaneStateName(Status().state); }
  std::vector<GoneLane> Gone() {
    std::vector<GoneLane> gone;
    engine->TakeGone(&gone);
    return gone;
  }
  std::vector<int64_t> PendingOrder() {
    std::vector<int64_t> order;
    for (const Pending& one : sink->pending) {
      order.push_back(one.record.created_at);
    }
    return order;
  }
  std::vector<int64_t> AllRows() {
    std::vector<int64_t> order;
    for (const Row& row : server.rows) {
      order.push_back(row.created_at);
    }
    return order;
  }
  // Turns at the times the engine asks for, until it wants nothing before `until`.
  void RunUntil(int64_t until) {
    for (int64_t next = Turn(); next < until; next = Turn()) {
      clock.now = std::max(clock.now, next);
    }
    clock.now = until;
    Turn();
  }

  FakeClock clock;
  Server server{&clock};
  Broker broker;
  EngineOptions options;
  std::shared_ptr<const format::RouteSpec> spec = fakes::Spec();
  std::unique_ptr<Engine> engine;
  FakeSink* sink = nullptr;
  int sinks = 0;
  FakeLog* log = nullptr;
  std::vector<LaneStatus> statuses;
  std::vector<LaneInternals> internals;
};

}  // namespace outbox::relay
