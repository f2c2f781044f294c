// What the tests of side lanes share: one lane whose topics can be in trouble, with side lanes.
#pragma once

#include <map>
#include <set>

#include "relay/lane/side_lanes.h"
#include "relay_engine_fixture.h"
#include "relay_fake_sides.h"

namespace outbox::relay {

class SidesTest : public EngineTest {
 protected:
  SidesTest() { Restart(); }
  ~SidesTest() override { engine.reset(); }  // before what its sinks call back to

  void Restart() {
    engine.reset();
    engine = std::make_unique<Engine>(&clock, options);
    engine->SetDestination(
        kDestination,
        [this, first = true]() mutable {
          auto made = std::make_unique<FakeSink>(&broker, &server);
          FakeSink* raw = made.get();
          if (std::exchange(first, false)) {
            sink = raw;
          } else {
            probe = raw;
            raw->on_close = [this] { probe = nullptr; };
          }
          if (answers) {
            raw->on_poll = [this, raw] { Answer(raw); };
          }
          return std::unique_ptr<sink::Sink>(std::move(made));
        },
        0);
    AddLane();
  }
  void AddLane() {
    LaneLogs logs;
    logs.filter = std::make_shared<LaneFilter>(spec);
    auto made = std::make_unique<FakeLog>(&server, logs.filter);
    log = made.get();
    logs.log = std::move(made);
    auto made_sides = std::make_unique<fakes::FakeSideLog>(&server);
    side_log = made_sides.get();
    side_log->on_parked = [this](std::span<const Parking> parked) {
      for (const Parking& parking : parked) {
        forked.push_back({parking.event.created_at, parking.state});
        server.parked.push_back(parking.event.created_at);
        server.parked_step.emplace(parking.event.created_at, server.step());
      }
    };
    logs.parked = std::make_unique<fakes::FakeDeadLetters>(&server);
    logs.sides = std::move(made_sides);
    ASSERT_TRUE(engine->AddLane(kLane, spec, std::move(logs), kDestination));
  }
  // The broker: records of topics in `bad` fail, and with each the rest of its flow is aborted.
  void Answer(FakeSink* of) {
    while (!of->pending.empty()) {
      size_t i = 0;
      while (i < of->pending.size() && bad.count(of->pending[i].record.topic) == 0) {
        ++i;
      }
      if (i < of->pending.size()) {
        refusals.push_back(of->pending[i].record.topic);
        for (; i > 0; --i) {
          of->Deliver();
        }
        of->Fail(0, ErrorClass::kTopic, "UNKNOWN_TOPIC_OR_PART");
      } else {
        of->DeliverAll();
      }
    }
  }
  void AnswerByItself() {
    answers = true;
    sink->on_poll = [this] { Answer(sink); };
    if (probe != nullptr) {
      probe->on_poll = [this] { Answer(probe); };
    }
  }
  // Each record is answered 5 ms after it was first seen here: to be called each millisecond.
  void AnswerSlowly() {
    for (FakeSink* of : {sink, probe}) {
      for (size_t i = 0; of != nullptr && i < of->pending.size();) {
        const auto found = seen.try_emplace(of->pending[i].seq * 2 + (of == sink ? 0 : 1), clock.now).first;
        if (clock.now - found->second < 5'000) {
          ++i;
        } else if (bad.count(of->pending[i].record.topic) != 0) {
          of->Fail(i, ErrorClass::kTopic);
          i = 0;
        } else {
          of->Deliver(i);
        }
      }
    }
  }
  const Row& Emit(const std::string& topic, const std::string& key = "k") {
    return server.EmitCommitted(key, 10, topic);
  }
  std::vector<int64_t> Written(const std::string& topic) {
    std::vector<int64_t> order;
    for (const fakes::Written& written : broker.log) {
      if (written.topic == topic) {
        order.push_back(written.created_at);
      }
    }
    return order;
  }
  std::vector<int64_t> Rows(const std::string& topic) {
    std::vector<int64_t> order;
    for (const Row& row : server.rows) {
      if (row.topic == topic) {
        order.push_back(row.created_at);
      }
    }
    return order;
  }
  const LaneStatus* Side(int32_t number) {
    engine->Lanes(&statuses);
    for (const LaneStatus& status : statuses) {
      if (status.id.side == number) {
        return &status;
      }
    }
    return nullptr;
  }
  struct Forked {
    int64_t created_at;
    ParkedState state;
  };
  std::set<std::string> bad;
  std::vector<std::string> refusals;
  std::vector<Forked> forked;
  FakeSink* probe = nullptr;
  fakes::FakeSideLog* side_log = nullptr;
  bool answers = false;
  std::map<uint64_t, int64_t> seen;  // records by AnswerSlowly(), since when
};

}  // namespace outbox::relay
