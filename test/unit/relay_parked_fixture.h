// What the tests of parked events share: one lane with a parked table and a retry sink.
#pragma once

#include "base/order_key.h"
#include "relay_engine_fixture.h"
#include "relay_fake_parked.h"

namespace outbox::relay {

using fakes::FakeParkedLog;
using fakes::ParkedRow;
using fakes::ParkedTable;

class ParkedTest : public ::testing::Test {
 protected:
  ParkedTest() {
    config.policy.backoff_base = 1'000'000;
    config.policy.backoff_cap = 8'000'000;
    config.policy.max_attempts = 3;
    Restart();
  }

  void Restart(format::OnFailure on_failure = format::OnFailure::kSkip) {
    config.policy.on_failure = on_failure;
    table.on_failure = on_failure;
    engine = std::make_unique<Engine>(&clock, options);
    retry = nullptr;
    engine->SetDestination(kDestination, MakeFactory(), 0);
    AddLane();
  }
  SinkFactory MakeFactory() {
    auto made = std::make_unique<FakeSink>(&broker, &server);
    sink = made.get();
    return fakes::Factory(std::move(made), [this] { return MakeRetrySink(); });
  }
  virtual std::unique_ptr<FakeSink> MakeRetrySink() {
    ++retry_sinks;
    auto made = std::make_unique<FakeSink>(&broker, &server);
    retry = made.get();
    made->on_close = [this] { retry = nullptr; };
    return made;
  }
  virtual void AddLane() {
    auto spec = fakes::Spec(config);
    ASSERT_TRUE(engine->AddLane(kLane, spec, Logs(spec, &table), kDestination));
  }
  LaneLogs Logs(const std::shared_ptr<const format::RouteSpec>& spec, ParkedTable* parked) {
    LaneLogs logs = fakes::Logs(&server, spec);
    logs.parked = std::make_unique<FakeParkedLog>(parked, ++incarnation);
    return logs;
  }
  int64_t Turn(bool woken = true, bool parked = false) { return engine->Turn({woken, 0, parked}); }
  void RunUntil(int64_t until) {
    for (int64_t next = Turn(); next < until; next = Turn()) {
      clock.now = std::max(clock.now, next);
    }
    clock.now = until;
    Turn();
  }
  LaneStatus Status() {
    engine->Lanes(&statuses);
    return statuses.empty() ? LaneStatus{} : statuses[0];
  }
  LaneInternals Internals() {
    engine->Internals(&internals);
    return internals.empty() ? LaneInternals{} : internals[0];
  }
  GoneReason Gone() {
    std::vector<GoneLane> gone;
    engine->TakeGone(&gone);
    return gone.size() == 1 ? gone[0].reason : GoneReason{};
  }
  int64_t Emit(const std::string& key, int64_t deliver_at = 0) {
    server.EmitCommitted(key);
    server.rows.back().deliver_at = deliver_at;
    return server.rows.back().created_at;
  }
  static std::vector<int64_t> Order(const FakeSink* of) {
    std::vector<int64_t> order;
    for (const Pending& one : of->pending) {
      order.push_back(one.record.created_at);
    }
    return order;
  }
  // An event that was parked before, and is due.
  int64_t Park(const std::string& key, int attempts) {
    ParkedRow row;
    row.created_at = Emit(key);
    row.type = "order";
    row.key = key;
    row.order_key = key.empty() ? 0 : OrderKey("outbox.event.order", "order", key);
    row.state = ParkedState::kRetrying;
    row.due = clock.WallMicros();
    row.attempts = attempts;
    table.rows[row.created_at] = row;
    server.position.base = server.Current();
    return row.created_at;
  }
  const ParkedRow& RowOf(int64_t created_at) { return table.rows.at(created_at); }
  using Events = std::vector<int64_t>;

  // An event of key "a" that failed alone, with two behind it and one of another key.
  int64_t first = 0, second = 0, third = 0, other = 0;
  void FailAlone() {
    first = Emit("a");
    other = Emit("b");
    second = Emit("a");
    Turn();
    sink->Fail(0, ErrorClass::kSolo);
    Turn();
    ASSERT_EQ(Order(sink), (Events{first}));
    sink->Fail(0, ErrorClass::kSolo, "INVALID_RECORD");
    Turn();
    third = Emit("a");
    Turn();
  }

  FakeClock clock;
  Server server{&clock};
  Broker broker;
  ParkedTable table{&server};
  EngineOptions options;
  format::RouteConfig config;
  std::unique_ptr<Engine> engine;
  FakeSink* sink = nullptr;
  FakeSink* retry = nullptr;
  int retry_sinks = 0;
  uint64_t incarnation = 0;
  std::vector<LaneStatus> statuses;
  std::vector<LaneInternals> internals;
};

}  // namespace outbox::relay
