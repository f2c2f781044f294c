// matrix: S3 D6
// Side lanes under random trouble of topics, pauses, refusals, aborts, log errors, deaths of the sink, crashes, lost
// and released lanes, with more topics than side lanes now and then. Checked at the end: nothing is lost, order per
// topic and key holds for first occurrences, no duplicate without a crash or an abort that wrote, and when all has
// healed no side lane is left and the lane's position covers everything.
//
// A failure prints its seed; OUTBOX_SEED=n runs that case alone.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <unordered_map>

#include "relay/lane/side_lanes.h"
#include "relay_fake_parked.h"
#include "relay_fake_sides.h"

namespace outbox::relay {
namespace {

using fakes::Broker;
using fakes::FakeClock;
using fakes::FakeLog;
using fakes::FakeParkedLog;
using fakes::FakeSideLog;
using fakes::FakeSink;
using fakes::ParkedTable;
using fakes::Pending;
using fakes::Row;
using fakes::Server;

constexpr DestinationId kDestination = 1;
constexpr LaneId kLane{1, 0};

struct Totals {
  uint64_t events = 0;
  uint64_t forks = 0;
  uint64_t rejoins = 0;
  uint64_t parked = 0;
  uint64_t retried = 0;
  uint64_t full = 0;
  uint64_t crashes = 0;
  uint64_t duplicates = 0;
  uint64_t deaths = 0;
};

class Case {
 public:
  explicit Case(uint64_t seed) : random_(seed), seed_(seed) {
    clock_.seed = seed;
    keys_ = 1 + Below(4);
    topics_ = OneIn(8) ? (OneIn(4) ? 65 : 20) : 1 + Below(5);
    calm_ = OneIn(4);
    server_.tells_rest = OneIn(2);
    with_parked_ = OneIn(2);
    policy_.on_failure = OneIn(2) ? format::OnFailure::kBlock : format::OnFailure::kSkip;
    policy_.max_attempts = 3;
    policy_.backoff_base = 1'000'000;
    policy_.backoff_cap = 5'000'000;
    table_.on_failure = policy_.on_failure;
    SetSpec();
    options_.max_sides = OneIn(3) ? 1 + Below(4) : 256;
    options_.max_inflight = OneIn(6) ? 64 * 1024 : 1024 * 1024;
    server_.fails = [this](const char*) { return log_trouble_ > 0 && Below(100) < log_trouble_; };
    Start();
  }

  // "" or what went wrong.
  std::string Run(Totals* totals) {
    const uint64_t steps = 30 + Below(80);
    for (uint64_t i = 0; i < steps && wrong_.empty(); ++i) {
      Act();
    }
    Finish();
    if (wrong_.empty()) {
      CheckEnd(totals);
    }
    totals->events += server_.rows.size();
    totals->forks += static_cast<uint64_t>(server_.calls["Fork"]);
    totals->rejoins += static_cast<uint64_t>(server_.calls["Rejoin"]);
    totals->parked += server_.parked.size() + table_.delivered.size();
    totals->retried += table_.delivered.size();
    totals->full += full_ ? 1 : 0;
    totals->crashes += crashes_;
    totals->deaths += deaths_;
    return wrong_.empty() ? "" : "seed " + std::to_string(seed_) + ": " + wrong_;
  }

 private:
  uint64_t Below(uint64_t n) { return random_() % n; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  void Wrong(const std::string& what) {
    if (wrong_.empty()) {
      wrong_ = what;
    }
  }
  std::string Topic(uint64_t n) { return "t" + std::to_string(n); }

  void Start() {
    engine_ = std::make_unique<Engine>(&clock_, options_);
    engine_->SetDestination(
        kDestination,
        [this] {
          auto made = std::make_unique<FakeSink>(&broker_, &server_);
          made->merge_results = !OneIn(3);
          FakeSink* raw = made.get();
          FakeSink** place = main_ == nullptr || main_->closed ? &main_ : &second_;
          *place = raw;
          raw->on_close = [place, raw] { *place = *place == raw ? nullptr : *place; };
          return std::unique_ptr<sink::Sink>(std::move(made));
        },
        0);
    AddLane();
  }
  void AddLane() {
    LaneLogs logs;
    logs.filter = std::make_shared<LaneFilter>(spec_);
    auto log = std::make_unique<FakeLog>(&server_, logs.filter);
    log->slow_sort = OneIn(4);
    logs.log = std::move(log);
    auto sides = std::make_unique<FakeSideLog>(&server_);
    sides->on_parked = [this](std::span<const Parking> parked) {
      if (with_parked_) {
        int64_t due = 0;
        const auto fails = std::exchange(server_.fails, nullptr);
        const std::string wrong = table_.wrong;
        static_cast<void>(FakeParkedLog(&table_, 0).Park(parked, &due).ok());
        table_.wrong = wrong;  // a fork parks what was not refused
        server_.fails = fails;
        return;
      }
      for (const Parking& parking : parked) {
        if (!server_.parked_step.emplace(parking.event.created_at, server_.step()).second && crashes_ == 0) {
          Wrong("parked twice");
        }
        server_.parked.push_back(parking.event.created_at);
      }
    };
    logs.sides = std::move(sides);
    if (with_parked_) {
      logs.parked = std::make_unique<FakeParkedLog>(&table_, ++incarnation_);
    } else {
      logs.parked = std::make_unique<fakes::FakeDeadLetters>(&server_);
    }
    engine_->AddLane(kLane, spec_, std::move(logs), kDestination);
  }
  void SetSpec() {
    format::RouteConfig config;
    config.paused = paused_;
    for (uint64_t topic : paused_topics_) {
      config.paused_topics.push_back(Topic(topic));
    }
    config.policy = policy_;
    spec_ = fakes::Spec(std::move(config));
    if (engine_ != nullptr) {
      engine_->UpdateLane(kLane, spec_);
    }
  }
  void LoseInFlight() {
    for (FakeSink* sink : {main_, second_}) {
      if (sink != nullptr) {
        for (uint64_t n = Below(sink->pending.size() + 1), i = 0; i < n; ++i) {
          sink->Write(sink->pending[i]);
        }
        sink->pending.clear();
      }
    }
  }

  void Turn() {
    engine_->Turn({.woken = OneIn(2)});
    full_ |= server_.sides.size() >= options_.max_sides && bad_.size() > options_.max_sides;
    std::vector<GoneLane> gone;
    engine_->TakeGone(&gone);
    for (const GoneLane& lane : gone) {
      crashes_ += lane.reason == GoneReason::kReleased ? 0 : 1;
      if (lane.id.side != 0 || engine_->lane_count() != 0) {
        Wrong("a lane left without its side lanes");
      }
    }
    if (!gone.empty()) {
      LoseInFlight();
      server_.owned = true;
      AddLane();
    }
  }

  void Act() {
    switch (Below(24)) {
      case 0:
      case 1:
      case 2:
      case 3: {
        const uint64_t xid = server_.running().empty() || OneIn(2) ? server_.Begin() : *server_.running().rbegin();
        for (uint64_t n = 1 + Below(topics_ > 10 ? 12 : 4); n > 0; --n) {
          server_.Emit(xid, "k" + std::to_string(Below(keys_)), OneIn(50) ? 30'000 : 8, Topic(Below(topics_)));
        }
        break;
      }
      case 4:
      case 5:
      case 6:
        if (!server_.running().empty()) {
          auto it = server_.running().begin();
          std::advance(it, static_cast<long>(Below(server_.running().size())));
          const uint64_t xid = *it;
          OneIn(8) ? server_.Abort(xid) : server_.Commit(xid);
        }
        break;
      case 7:
        server_.ticks.push_back(server_.Current());
        break;
      case 8:
      case 9:
        clock_.now += static_cast<int64_t>(Below(2'000'000));
        break;
      case 10:
        log_trouble_ = OneIn(3) ? Below(80) : 0;
        break;
      case 11:
      case 12:
        if (OneIn(3)) {
          bad_.clear();
        } else {
          for (uint64_t n = 1 + Below(topics_ > 10 ? 20 : 2); n > 0; --n) {
            bad_.insert(Topic(Below(topics_)));
          }
        }
        break;
      case 13:
        if (OneIn(3)) {
          paused_ = !paused_;
        } else if (OneIn(3)) {
          paused_topics_.clear();
        } else {
          paused_topics_.insert(Below(topics_));
        }
        SetSpec();
        break;
      case 14:
        calm_ ? void() : Disturb();
        break;
      default:
        for (uint64_t n = 1 + Below(4); n > 0; --n) {
          Outcome(OneIn(3) && second_ != nullptr ? second_ : main_);
          clock_.now += 1000;
          Turn();
        }
    }
  }

  void Disturb() {
    switch (Below(7)) {
      case 0:
        ++crashes_;
        LoseInFlight();
        engine_.reset();
        Start();
        break;
      case 1:
        server_.owned = false;  // until the engine notices
        break;
      case 2:
        engine_->ReleaseLane(kLane, clock_.now + static_cast<int64_t>(Below(1000)));
        break;
      case 3:
        main_->SetUp(!main_->health().up);
        break;
      case 4:
        ++deaths_;
        main_->Die();
        break;
      default:
        if (FakeSink* sink = OneIn(2) ? main_ : second_; sink != nullptr && !sink->pending.empty()) {
          const uint64_t written = OneIn(2) ? 0 : Below(sink->pending.size());
          crashes_ += written > 0 ? 1 : 0;
          sink->Abort(sink->pending[Below(sink->pending.size())].flow, written);
        }
    }
  }

  void Outcome(FakeSink* sink) {
    for (uint64_t n = 1 + Below(8); n > 0 && !sink->pending.empty(); --n) {
      const size_t i = FirstOfItsKey(sink, Below(sink->pending.size()));
      if (bad_.count(sink->pending[i].record.topic) != 0) {
        sink->Fail(i, ErrorClass::kTopic, "UNKNOWN_TOPIC_OR_PART", OneIn(2));
      } else if (!calm_ && OneIn(30)) {
        sink->Fail(i,
                   OneIn(2)   ? ErrorClass::kMessage
                   : OneIn(2) ? ErrorClass::kSolo
                              : ErrorClass::kDestination,
                   "REFUSED", OneIn(2));
      } else {
        sink->Deliver(i);
      }
    }
  }
  // The sink keeps order within flow, topic and key.
  static size_t FirstOfItsKey(const FakeSink* sink, size_t i) {
    for (size_t j = 0; j < i; ++j) {
      const auto& a = sink->pending[j];
      const auto& b = sink->pending[i];
      if (a.flow == b.flow && a.record.key == b.record.key && a.record.topic == b.record.topic) {
        return j;
      }
    }
    return i;
  }

  void Finish() {
    while (!server_.running().empty()) {
      server_.Commit(*server_.running().begin());
    }
    log_trouble_ = 0;
    bad_.clear();
    paused_ = false;
    paused_topics_.clear();
    server_.owned = true;
    SetSpec();
    main_->SetUp(true);
    for (int i = 0; i < 2'000 && wrong_.empty(); ++i) {
      for (FakeSink* sink : {main_, second_}) {
        if (sink != nullptr) {
          sink->DeliverAll();
        }
      }
      clock_.now += 1'000'000;
      Turn();
      if (i > 3 && server_.sides.empty() && main_->pending.empty() && !server_.position.target &&
          server_.position.base.Covers(server_.Current()) && engine_->lane_count() == 1 && Rests()) {
        return;
      }
    }
    if (std::getenv("OUTBOX_SEED") != nullptr) {
      std::vector<LaneStatus> lanes;
      engine_->Lanes(&lanes);
      for (const LaneStatus& lane : lanes) {
        std::printf("side %d %s topics %d inflight %d error %s\n", lane.id.side, LaneStateName(lane.state), lane.topics,
                    static_cast<int>(lane.inflight_count), lane.error == nullptr ? "" : lane.error->code.c_str());
      }
      for (const auto& [created_at, row] : table_.rows) {
        std::printf("row %d %s key %s state %d due %+.3f attempts %d\n", static_cast<int>(created_at % 1000),
                    row.topic.c_str(), row.key.c_str(), static_cast<int>(row.state),
                    static_cast<double>(row.due - clock_.WallMicros()) / 1e6, row.attempts);
      }
      std::vector<DestinationStatus> destinations;
      engine_->Destinations(&destinations);
      std::printf("%s %s; %zu pending\n", BreakerStateName(destinations[0].state), destinations[0].reason.code.c_str(),
                  main_->pending.size());
    }
    Wrong(server_.sides.empty() ? "it does not become idle" : "side lanes are left when all has healed");
  }

  // Of what is parked, nothing waits but behind a dead one.
  bool Rests() {
    std::set<uint64_t> dead;
    return std::all_of(table_.rows.begin(), table_.rows.end(), [&](const auto& entry) {
      const fakes::ParkedRow& row = entry.second;
      if (row.state == ParkedState::kDead && table_.blocks()) {
        dead.insert(row.order_key);
      }
      return row.state == ParkedState::kDead || (row.state == ParkedState::kBlocked && dead.contains(row.order_key));
    });
  }

  void CheckEnd(Totals* totals) {
    if (!table_.wrong.empty()) {
      Wrong(table_.wrong);
    }
    std::unordered_map<int64_t, uint64_t> first;
    for (const auto& written : broker_.log) {
      first.emplace(written.created_at, written.step);
    }
    const uint64_t distinct = first.size();
    totals->duplicates += broker_.log.size() - distinct;
    if (crashes_ == 0 && broker_.log.size() != distinct) {
      Wrong("a duplicate without a crash");
    }
    for (const auto& [created_at, step] : server_.parked_step) {
      const auto [found, fresh] = first.emplace(created_at, step);
      if (!fresh && crashes_ == 0) {
        Wrong("both parked and delivered");
      }
      found->second = std::min(found->second, step);
    }
    std::map<std::pair<std::string, std::string>, std::vector<const Row*>> by_key;
    for (const Row& row : server_.rows) {
      if (server_.Committed(row.xid)) {
        if (first.count(row.created_at) == 0 && !table_.rows.contains(row.created_at)) {
          Wrong("an event was lost");
          return;
        }
        by_key[{row.topic, row.key}].push_back(&row);
      }
    }
    for (const auto& [key, rows] : by_key) {
      for (size_t i = 0; i < rows.size(); ++i) {
        for (size_t j = i + 1; j < rows.size(); ++j) {
          const bool promised = rows[i]->xid == rows[j]->xid || server_.commits[rows[i]->xid] < rows[j]->emitted;
          const auto a = first.find(rows[i]->created_at);
          const auto b = first.find(rows[j]->created_at);
          // Under `skip` a dead letter lets its key go on.
          const bool excused = table_.ever_dead.contains(rows[i]->created_at) && !table_.blocks();
          if (promised && !excused && b != first.end() && (a == first.end() || a->second > b->second)) {
            Wrong("order of key " + key.second + " in " + key.first + " is broken");
          }
        }
      }
    }
  }

  std::mt19937_64 random_;
  const uint64_t seed_;
  FakeClock clock_;
  Server server_{&clock_};
  Broker broker_;
  ParkedTable table_{&server_};
  format::RetryPolicy policy_;
  bool with_parked_ = false;
  uint64_t incarnation_ = 0;
  EngineOptions options_;
  std::shared_ptr<const format::RouteSpec> spec_;
  std::unique_ptr<Engine> engine_;
  FakeSink* main_ = nullptr;
  FakeSink* second_ = nullptr;
  uint64_t keys_ = 1;
  uint64_t topics_ = 1;
  bool calm_ = false;  // no trouble but topics' and pauses
  bool paused_ = false;
  std::set<uint64_t> paused_topics_;
  std::set<std::string> bad_;
  uint64_t log_trouble_ = 0;  // percent
  uint64_t crashes_ = 0;      // and everything else after which a duplicate is legal
  uint64_t deaths_ = 0;
  bool full_ = false;
  std::string wrong_;
};

TEST(RelayForksProperty, TwentyThousandRandomCases) {
  Totals totals;
  const char* only = std::getenv("OUTBOX_SEED");
  if (only != nullptr) {
    EXPECT_EQ(Case(std::strtoull(only, nullptr, 10)).Run(&totals), "");
    return;
  }
  const char* wanted = std::getenv("OUTBOX_CASES");
  const uint64_t cases = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 20'000;
  for (uint64_t seed = 1; seed <= cases; ++seed) {
    ASSERT_EQ(Case(seed).Run(&totals), "");
  }
  std::printf(
      "%llu events, %llu forks, %llu rejoins, %llu parked, %llu retried, %llu with too many topics, %llu crashes, %llu "
      "duplicates, %llu "
      "deaths\n",
      static_cast<unsigned long long>(totals.events), static_cast<unsigned long long>(totals.forks),
      static_cast<unsigned long long>(totals.rejoins), static_cast<unsigned long long>(totals.parked),
      static_cast<unsigned long long>(totals.retried), static_cast<unsigned long long>(totals.full),
      static_cast<unsigned long long>(totals.crashes), static_cast<unsigned long long>(totals.duplicates),
      static_cast<unsigned long long>(totals.deaths));
  // The cases must have met what they are about.
  EXPECT_GT(totals.events, cases * 10);
  EXPECT_GT(totals.forks, cases / 2);
  EXPECT_GT(totals.rejoins, cases / 2);
  EXPECT_GT(totals.parked, cases / 20);
  EXPECT_GT(totals.retried, cases / 200);
  EXPECT_GT(totals.full, cases / 1000);
  EXPECT_GT(totals.crashes, cases / 10);
  EXPECT_GT(totals.deaths, cases / 20);
}

}  // namespace
}  // namespace outbox::relay
