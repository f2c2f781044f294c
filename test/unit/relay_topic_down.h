// A topic that is down for hours under steady load, in simulated time over the real engine: a log that makes its events
// when they are read, a destination of limited speed, and no server. For the test of that name and its benchmark.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/monotonic.h"
#include "base/uuid.h"
#include "format/route_spec.h"
#include "relay/engine.h"
#include "relay_fake_clock.h"
#include "relay_fake_dead.h"
#include "sink/flow_gate.h"
#include "sink/record.h"

namespace outbox::relay::topic_down {

constexpr int64_t kWallAtZero = fakes::FakeClock::kWallAtZero;
constexpr const char* kDown = "outbox.event.down";

struct Config {
  int64_t down_for = 86'400 * kSecond;
  int64_t before = 10 * kSecond;  // all is well
  uint64_t down_rate = 5'000;     // events a second of the topic in trouble
  uint64_t up_rate = 1'000;       // and of the others together
  uint64_t capacity = 100'000;    // events a second that the destination takes
  int64_t latency = 5'000;        // of an acknowledgement
  int64_t refusal = 5 * kSecond;  // an unknown topic is refused after this long, as by Kafka's client
  size_t payload = 300;
  int64_t wake_every = 50'000;  // commits wake the worker this often
};

struct Report {
  uint64_t emitted = 0;
  uint64_t delivered = 0;
  uint64_t duplicates_or_disorder = 0;  // of either topic: not the next one in turn
  int64_t parked = 0;
  size_t peak_engine_bytes = 0;
  int64_t fork_after = 0;         // microseconds from the first refusal-to-be to the fork
  int64_t worst_delay_well = 0;   // of the healthy topic: microseconds from commit to delivery, before the trouble
  int64_t worst_delay_fork = 0;   // while the topic left
  int64_t worst_delay_down = 0;   // after it, while the topic was down
  int64_t worst_delay_drain = 0;  // while the side lane read the rest and rejoined
  int64_t heal = 0;               // from the end of the trouble to the first event of the topic delivered
  int64_t drain = 0;              // from there to the rejoin
  uint64_t probes = 0;            // refusals while it was down
  uint64_t saves = 0;             // rows of progress, lane and side lane
  bool rejoined = false;
};

// The log: event n was committed by transaction kFirstXid + n at n / rate. Every so manieth is of the healthy topic.
class World {
 public:
  explicit World(const Config& config) : config(config), rate(config.down_rate + config.up_rate) {}
  static constexpr uint64_t kFirstXid = 10;

  uint64_t Emitted() const { return static_cast<uint64_t>(std::min(clock.now, stopped_at)) * rate / kSecond; }
  int64_t At(uint64_t n) const { return static_cast<int64_t>((n * kSecond + rate - 1) / rate); }
  // Spread evenly.
  bool Up(uint64_t n) const { return (n + 1) * config.up_rate / rate != n * config.up_rate / rate; }
  static Snapshot Seen(uint64_t events) { return Snapshot{kFirstXid + events, kFirstXid + events, {}}; }
  static uint64_t EventsIn(const Snapshot& snapshot) {
    return snapshot.xmax > kFirstXid ? snapshot.xmax - kFirstXid : 0;
  }

  const Config config;
  const uint64_t rate;
  fakes::FakeClock clock;
  Report report;
  bool down = false;
  int64_t stopped_at = INT64_MAX;  // nothing is emitted later
  Position lane{Seen(0), std::nullopt, kBeforeAllTime};
  std::map<int32_t, std::pair<SideLane, Position>> sides;
};

class SimLog : public LaneLog {
 public:
  SimLog(World* world, const EventFilter* filter, int32_t side)
      : world_(world), filter_(filter), side_(side), payload_(world->config.payload, 'x') {}

  Status LoadPosition(Position* position) override {
    *position = Stored();
    return Status();
  }
  // As the real one: up to now when that is near, else to a snapshot recorded some seconds on.
  Status OpenWindow(const Position& position, Window* window, bool* opened) override {
    const uint64_t from = World::EventsIn(position.base);
    const uint64_t now = std::min(world_->Emitted(), limit_);
    uint64_t to = now;
    if (position.target) {
      to = World::EventsIn(*position.target);
    } else if (now - from > kNearNow) {
      const uint64_t tick = (from + kSpan) / world_->rate * world_->rate;
      to = tick > from && tick < now ? tick : now;
    }
    *opened = to > from;
    if (*opened) {
      next_ = from;
      after_ = position.target ? position.done_to : kBeforeAllTime;
      end_ = to;
      window->from = position.base;
      window->to = World::Seen(to);
      window->current = to == world_->Emitted() && !position.target;
    }
    return Status();
  }
  void LimitTo(const Snapshot* limit) override { limit_ = limit == nullptr ? UINT64_MAX : World::EventsIn(*limit); }
  Status ReadChunk(size_t max_bytes, EventChunk* chunk, bool* end) override {
    size_t bytes = 0;
    for (; next_ < end_ && (bytes == 0 || bytes < max_bytes); ++next_) {
      Event event;
      event.created_at = kWallAtZero + world_->At(next_);
      event.xid = World::kFirstXid + next_;
      event.aggregate_type = world_->Up(next_) ? "up" : "down";
      event.event_type = "happened";
      event.aggregate_id = std::string_view("0123456789abcdef").substr(next_ % 16, 1);
      if (event.created_at > after_ &&
          filter_->Wants(event.aggregate_type, event.aggregate_id, event.event_type, event.id, {})) {
        event.payload = chunk->arena.Copy(payload_);
        chunk->events.push_back(event);
        bytes += event.bytes();
      }
    }
    *end = next_ == end_;
    return Status();
  }
  Status CheckDurable(uint64_t, bool* durable) override {
    *durable = true;
    return Status();
  }
  Status SaveProgress(std::span<ProgressSave> saves) override {
    for (const ProgressSave& save : saves) {
      ++world_->report.saves;
      static_cast<SimLog*>(save.log)->Stored() = save.position;
    }
    return Status();
  }

 private:
  static constexpr uint64_t kNearNow = 2'000;
  static constexpr uint64_t kSpan = 60'000;  // events of one window of a backlog

  Position& Stored() { return side_ == 0 ? world_->lane : world_->sides.at(side_).second; }

  World* world_;
  const EventFilter* filter_;
  const int32_t side_;
  const std::string payload_;
  uint64_t next_ = 0;
  uint64_t end_ = 0;
  int64_t after_ = kBeforeAllTime;
  uint64_t limit_ = UINT64_MAX;
};

class SimParkedLog : public fakes::DeadParkedLog {
 public:
  explicit SimParkedLog(World* world) : world_(world) {}
  Status Park(std::span<const Parking> events, int64_t*) override {
    world_->report.parked += static_cast<int64_t>(events.size());
    return Status();
  }

 private:
  World* world_;
};

class SimSideLog : public SideLog {
 public:
  explicit SimSideLog(World* world) : world_(world) {}
  Status LoadSides(std::vector<SideLane>* sides) override {
    for (const auto& [number, side] : world_->sides) {
      sides->push_back(side.first);
    }
    return Status();
  }
  Status Fork(const SideLane& side, const Position& position, std::span<const Parking> parked, int64_t*) override {
    world_->sides.insert_or_assign(side.side, std::make_pair(side, position));
    world_->report.parked += static_cast<int64_t>(parked.size());
    return Status();
  }
  Status Rejoin(int32_t side, const Position& position) override {
    world_->sides.erase(side);
    world_->lane = position;
    return Status();
  }
  std::unique_ptr<LaneLog> OpenSide(int32_t side, const EventFilter* filter) override {
    return std::make_unique<SimLog>(world_, filter, side);
  }

 private:
  World* world_;
};

// The destination: takes so many events a second, acknowledges them after the latency, refuses the topic that is down.
// Checks order per topic, and measures the healthy one's delay.
class SimSink : public sink::Sink {
 public:
  SimSink(World* world, int64_t* worst_delay, uint64_t* next_up, uint64_t* next_down, int64_t* busy_until)
      : world_(world), worst_(worst_delay), next_up_(next_up), next_down_(next_down), busy_until_(busy_until) {}

  void Submit(sink::Batch batch) override {
    int64_t& busy = *busy_until_;
    busy = std::max(busy, world_->clock.now);
    sink::RecordReader reader(batch.records);
    sink::Record record;
    uint64_t seq = batch.first_seq;
    while (reader.Next(&record)) {
      const bool bad = world_->down && record.topic == kDown;
      const int64_t at = bad ? world_->clock.now + world_->config.refusal : busy + world_->config.latency;
      int64_t created_at = 0;
      for (const sink::Field& field : record.fields) {
        if (field.name == "created_at") {
          created_at = std::stoll(std::string(field.value)) - kWallAtZero;
        }
      }
      if (!bad) {
        busy_fraction_ += kSecond;
        busy += static_cast<int64_t>(busy_fraction_ / world_->config.capacity);
        busy_fraction_ %= world_->config.capacity;
      }
      (bad ? refusals_ : answers_).push_back({at, batch.flow, batch.epoch, seq++, created_at, record.topic == kDown});
    }
  }
  void Poll(std::vector<sink::Result>* results) override {
    while (!answers_.empty() && answers_.front().at <= world_->clock.now) {
      const Answer answer = answers_.front();
      answers_.pop_front();
      if (!gate_.Admits(answer.flow, answer.epoch)) {
        Add(answer, sink::Outcome::kAborted, results);
        continue;
      }
      Deliver(answer);
      Add(answer, sink::Outcome::kDelivered, results);
    }
    if (!refusals_.empty() && refusals_.front().at <= world_->clock.now) {
      const Answer refused = refusals_.front();
      refusals_.pop_front();
      ++world_->report.probes;
      Add(refused, sink::Outcome::kFailed, results);
      results->back().error = {ErrorClass::kTopic, "UNKNOWN_TOPIC_OR_PART", "simulated"};
      gate_.Poison(refused.flow, refused.epoch);
      Abort(&refusals_, refused.flow, results);
      Abort(&answers_, refused.flow, results);
    }
  }
  void AppendWaits(std::vector<sink::WaitSpec>* waits) override {
    const int64_t answer = answers_.empty() ? kNever : answers_.front().at;
    const int64_t refusal = refusals_.empty() ? kNever : refusals_.front().at;
    waits->push_back({-1, false, false, std::min(answer, refusal)});
  }
  const sink::Health& health() const override { return health_; }
  void Close() override {}

 private:
  struct Answer {
    int64_t at;
    uint32_t flow;
    uint32_t epoch;
    uint64_t seq;
    int64_t created_at;
    bool down;
  };
  void Deliver(const Answer& answer) {
    ++world_->report.delivered;
    uint64_t& next = answer.down ? *next_down_ : *next_up_;
    while (world_->Up(next) == answer.down) {
      ++next;
    }
    world_->report.duplicates_or_disorder += world_->At(next) == answer.created_at ? 0 : 1;
    ++next;
    if (!answer.down) {
      *worst_ = std::max(*worst_, world_->clock.now - answer.created_at);
    }
  }
  static void Add(const Answer& answer, sink::Outcome outcome, std::vector<sink::Result>* results) {
    if (!results->empty() && outcome != sink::Outcome::kFailed) {
      sink::Result& last = results->back();
      if (last.flow == answer.flow && last.outcome == outcome && last.first_seq + last.count == answer.seq) {
        ++last.count;
        return;
      }
    }
    results->push_back({answer.flow, answer.seq, 1, outcome, {}});
  }
  static void Abort(std::deque<Answer>* answers, uint32_t flow, std::vector<sink::Result>* results) {
    std::erase_if(*answers, [&](const Answer& answer) {
      if (answer.flow == flow) {
        Add(answer, sink::Outcome::kAborted, results);
      }
      return answer.flow == flow;
    });
  }

  World* world_;
  int64_t* worst_;
  uint64_t* next_up_;
  uint64_t* next_down_;
  int64_t* busy_until_;
  uint64_t busy_fraction_ = 0;
  std::deque<Answer> answers_;
  std::deque<Answer> refusals_;
  sink::FlowGate gate_;
  sink::Health health_;
};

class Simulation {
 public:
  explicit Simulation(const Config& config) : world_(config), engine_(&world_.clock, EngineOptions{}) {
    format::RouteConfig route;
    route.kind = sink::FindKind("outbox_kafka");
    format::TemplateError error;
    const auto spec = format::RouteSpec::Make(route, &error);
    engine_.SetDestination(
        1,
        [this]() -> std::unique_ptr<sink::Sink> {
          return std::make_unique<SimSink>(&world_, &worst_, &next_up_, &next_down_, &busy_until_);
        },
        0);
    LaneLogs logs;
    logs.filter = std::make_shared<LaneFilter>(spec);
    logs.log = std::make_unique<SimLog>(&world_, logs.filter.get(), 0);
    logs.parked = std::make_unique<SimParkedLog>(&world_);
    logs.sides = std::make_unique<SimSideLog>(&world_);
    engine_.AddLane({1, 0}, spec, std::move(logs), 1);
  }

  Report Run() {
    Report& report = world_.report;
    const Config& config = world_.config;
    Until(config.before, [] { return false; });
    report.worst_delay_well = std::exchange(worst_, 0);
    world_.down = true;
    Until(config.before + config.down_for, [&] { return !world_.sides.empty(); });
    report.fork_after = world_.clock.now - config.before;
    Until(world_.clock.now + kSecond, [] { return false; });  // what was held up by it
    report.worst_delay_fork = std::exchange(worst_, 0);
    Until(config.before + config.down_for, [] { return false; });
    report.worst_delay_down = std::exchange(worst_, 0);
    world_.down = false;
    const uint64_t delivered_before = next_down_;
    Until(world_.clock.now + 120 * kSecond, [&] { return next_down_ != delivered_before; });
    report.heal = world_.clock.now - config.before - config.down_for;
    const int64_t healed = world_.clock.now;
    Until(healed + 10 * config.down_for, [&] { return world_.sides.empty(); });
    report.drain = world_.clock.now - healed;
    Until(world_.clock.now + 2 * kSecond, [] { return false; });
    report.worst_delay_drain = worst_;
    report.rejoined = world_.sides.empty();
    world_.stopped_at = world_.clock.now;
    report.emitted = world_.Emitted();
    Until(world_.clock.now + 10 * kSecond, [] { return false; });
    return report;
  }

 private:
  template <typename Done>
  void Until(int64_t end, Done&& done) {
    while (world_.clock.now < end && !done()) {
      const bool woken = world_.clock.now >= next_wake_;
      if (woken) {
        next_wake_ = world_.clock.now + world_.config.wake_every;
      }
      int64_t next = engine_.Turn({.woken = woken});
      engine_.Internals(&lanes_);
      size_t bytes = 0;
      for (const LaneInternals& lane : lanes_) {
        bytes += lane.inflight_bytes;
      }
      world_.report.peak_engine_bytes = std::max(world_.report.peak_engine_bytes, bytes);
      waits_.clear();
      engine_.AppendWaits(&waits_);
      for (const sink::WaitSpec& wait : waits_) {
        next = std::min(next, wait.deadline);
      }
      next = std::min(next, next_wake_);
      // A turn of a real worker takes time as well: never more than a thousand in a second.
      world_.clock.now = std::max(std::min(next, end), world_.clock.now + 1'000);
    }
  }

  World world_;
  int64_t worst_ = 0;
  uint64_t next_up_ = 0;
  uint64_t next_down_ = 0;
  int64_t busy_until_ = 0;
  int64_t next_wake_ = 0;
  std::vector<LaneInternals> lanes_;
  std::vector<sink::WaitSpec> waits_;
  Engine engine_;
};

}  // namespace outbox::relay::topic_down
