// One random case of relay_parked_property_test.cpp: what happens, and what is checked.
#pragma once

#include <array>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "relay_fake_parked.h"
#include "relay_fake_sides.h"
#include "relay_fakes.h"

namespace outbox::relay::fakes {

inline constexpr DestinationId kDestination = 1;
inline constexpr LaneId kLane{1, 0};

// What the cases have met.
enum Count {
  kCases,
  kEvents,
  kRepeats,  // occasions for a duplicate
  kRefusals,
  kTroubles,
  kDeaths,   // of sink processes
  kRetried,  // delivered from the parked table
  kDead,
  kBlocked,  // at the end
  kScheduled,
  kPeople,  // their acts
  kDuplicates,
  kCounts,
};
using Totals = std::array<uint64_t, kCounts>;

class Case {
 public:
  Case(uint64_t seed, Totals* totals) : random_(seed), seed_(seed), totals_(totals) {
    clock_.seed = seed;
    keys_ = 1 + Below(3);
    calm_ = OneIn(8);
    server_.tells_rest = OneIn(2);
    config_.policy.on_failure = OneIn(2) ? format::OnFailure::kSkip : format::OnFailure::kBlock;
    config_.policy.max_attempts = static_cast<int>(1 + Below(3));
    config_.policy.backoff_base = 1000;
    config_.policy.backoff_cap = 200'000;
    options_.backoff_base_micros = 1000;
    options_.backoff_cap_micros = 100'000;
    table_.on_failure = config_.policy.on_failure;
    server_.fails = [this](const char*) { return log_trouble_ > 0 && Below(100) < log_trouble_; };
    broker_.on_write = [this](const Written& record) { CheckWrite(record); };
    Start();
  }

  // "" or what went wrong.
  std::string Run() {
    for (uint64_t steps = 15 + Below(45); steps > 0 && wrong_.empty(); --steps) {
      Act();
      if (OneIn(2)) {
        Turn();
      }
      Show();
    }
    Finish();
    if (wrong_.empty()) {
      CheckEnd();
      Wrong(table_.wrong);
    }
    ++(*totals_)[kCases];
    (*totals_)[kEvents] += server_.rows.size();
    (*totals_)[kRepeats] += repeats_;
    (*totals_)[kRetried] += table_.delivered.size();
    (*totals_)[kDead] += table_.ever_dead.size();
    (*totals_)[kDuplicates] += broker_.log.size() - written_.size();
    return wrong_.empty() ? "" : "seed " + std::to_string(seed_) + ": " + wrong_;
  }

 private:
  uint64_t Below(uint64_t n) { return random_() % n; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  void Wrong(const std::string& what) { wrong_ = wrong_.empty() ? what : wrong_; }

  std::unique_ptr<FakeSink> MakeSink(FakeSink** place) {
    auto made = std::make_unique<FakeSink>(&broker_, &server_);
    made->merge_results = !OneIn(3);
    made->on_submit = [this, lanes = place != &retry_](const Pending& record) { CheckSubmit(record, lanes); };
    made->on_close = [place, sink = made.get()] {
      if (*place == sink) {
        *place = nullptr;
      }
    };
    *place = made.get();
    return made;
  }
  SinkFactory MakeFactory() {
    FakeSink* unused = nullptr;
    auto lanes = MakeSink(&unused);
    next_sink_ = lanes.get();
    lanes->on_close = nullptr;
    // Another one for the lanes comes where their sink was closed, because what it had is paused.
    return Factory(std::move(lanes), [this] {
      if (!sink_->closed) {
        return MakeSink(&retry_);
      }
      auto made = MakeSink(&sink_);
      made->on_close = nullptr;
      return made;
    });
  }
  void Start() {
    engine_ = std::make_unique<Engine>(&clock_, options_);
    engine_->SetDestination(kDestination, MakeFactory(), 0);
    sink_ = next_sink_;
    AddLane();
  }
  std::shared_ptr<const format::RouteSpec> MakeSpec() {
    config_.paused_keys.clear();
    for (const std::string& key : table_.paused) {
      config_.paused_keys.push_back({"order", key});
    }
    return Spec(config_);
  }
  void AddLane() {
    server_.owned = true;
    std::shared_ptr<const format::RouteSpec> spec = MakeSpec();
    LaneLogs logs = fakes::Logs(&server_, spec);
    logs.parked = std::make_unique<FakeParkedLog>(&table_, ++incarnation_);
    if (sides_) {
      auto side_log = std::make_unique<FakeSideLog>(&server_);
      side_log->on_parked = [this](std::span<const Parking> events) {
        for (const Parking& parking : events) {
          table_.Insert(parking);
        }
      };
      logs.sides = std::move(side_log);
    }
    engine_->AddLane(kLane, spec, std::move(logs), kDestination);
  }
  // What was in flight may have been written, in order, up to somewhere.
  void LoseInFlight(FakeSink* sink) {
    if (sink == nullptr) {
      return;
    }
    for (uint64_t n = Below(sink->pending.size() + 1), i = 0; i < n; ++i) {
      sink->Write(sink->pending[i]);
    }
    sink->pending.clear();
  }
  void LoseInFlight() {
    ++repeats_;
    LoseInFlight(sink_);
    LoseInFlight(retry_);
  }

  void Turn() {
    engine_->Turn({!OneIn(3), 0, std::exchange(parked_changed_, false)});
    std::vector<GoneLane> gone;
    engine_->TakeGone(&gone);
    for (const GoneLane& lane : gone) {
      if (lane.reason != GoneReason::kReleased) {
        LoseInFlight();
      }
      AddLane();
    }
  }

  // With OUTBOX_TRACE, after each step: what is where, by number of the event.
  void Show() {
    static const bool trace = std::getenv("OUTBOX_TRACE") != nullptr;
    if (!trace || server_.rows.empty()) {
      return;
    }
    const int64_t base = server_.rows.front().created_at;
    std::string line = "t=" + std::to_string(clock_.now) + " emitted " + std::to_string(server_.rows.size());
    for (const FakeSink* sink : {sink_, retry_}) {
      line += sink == sink_ ? "; lanes' sink:" : "; retry sink:";
      for (size_t i = 0; sink != nullptr && i < sink->pending.size(); ++i) {
        line += " " + std::to_string(sink->pending[i].record.created_at - base);
      }
    }
    line += "; parked:";
    for (const auto& [created_at, row] : table_.rows) {
      line +=
          " " + std::to_string(created_at - base) + "/" + row.key + "/" + std::to_string(static_cast<int>(row.state));
    }
    std::vector<LaneStatus> lanes;
    engine_->Lanes(&lanes);
    for (const LaneStatus& lane : lanes) {
      line += "; lane " + std::to_string(lane.id.side) + " " + LaneStateName(lane.state);
    }
    std::puts(line.c_str());
  }
  void Act() {
    switch (Below(20)) {
      case 0:
      case 1:
      case 2:
        for (uint64_t n = 1 + Below(3); n > 0; --n) {
          Emit();
        }
        break;
      case 3:
        clock_.now += static_cast<int64_t>(OneIn(3) ? Below(1'500'000) : Below(5000));
        break;
      case 4:
        log_trouble_ = OneIn(3) ? Below(60) : 0;
        break;
      case 5:
        calm_ || OneIn(3) ? void() : Disturb();
        break;
      case 6:
        calm_&& OneIn(2) ? void() : Person();
        break;
      case 7:
      case 8:
      case 9:
      case 10:
        Outcome(sink_);
        break;
      case 11:
      case 12:
      case 13:
        Outcome(retry_);
        break;
      default:
        if (OneIn(4)) {  // trouble passes
          log_trouble_ = 0;
          for (FakeSink* sink : {sink_, retry_}) {
            sink == nullptr || sink->health().up ? void() : sink->SetUp(true);
          }
        }
        clock_.now += static_cast<int64_t>(OneIn(3) ? Below(50'000) : 1000);
        Turn();
    }
  }

  void Emit() {
    const uint64_t key = Below(keys_ + 1);
    server_.EmitCommitted(key == keys_ ? "" : "k" + std::to_string(key), 4,
                          OneIn(60)  ? "not/legal"
                          : OneIn(6) ? "other"
                                     : "");
    if (OneIn(6)) {
      server_.rows.back().deliver_at = clock_.WallMicros() + static_cast<int64_t>(Below(2'000'000)) - 500'000;
      ++(*totals_)[kScheduled];
    }
  }

  void Disturb() {
    const uint64_t what = Below(9);
    switch (what) {
      case 0:  // crash
        LoseInFlight();
        engine_.reset();
        retry_ = nullptr;
        Start();
        break;
      case 1: {  // the destination's options changed
        SinkFactory factory = MakeFactory();
        const bool patient = OneIn(2);
        engine_->SetDestination(kDestination, std::move(factory), patient ? clock_.now + 1'000'000 : clock_.now);
        if (patient) {
          sink_->DeliverAll();
          if (retry_ != nullptr) {
            retry_->DeliverAll();
          }
        } else {
          LoseInFlight();
        }
        sink_ = next_sink_;  // the old one goes in this turn
        Turn();
        break;
      }
      case 2:  // orderly stop of the lane, perhaps too impatient
        engine_->ReleaseLane(kLane, clock_.now + static_cast<int64_t>(Below(1500)));
        break;
      case 3:  // another session has it locked
        server_.owned = false;
        ++repeats_;
        break;
      case 4:
        sink_->SetUp(!sink_->health().up);
        break;
      case 5:
        if (retry_ != nullptr) {
          retry_->SetUp(!retry_->health().up);
        }
        break;
      case 6:
        away_ = !away_;
        break;
      case 7:
        if (retry_ != nullptr) {
          ++(*totals_)[kDeaths];
          retry_->Die();
        }
        break;
      default:
        clock_.now += 40'000'000;  // long silence
        Turn();
    }
  }

  void Person() {
    ++(*totals_)[kPeople];
    parked_changed_ = true;
    if (sides_ && OneIn(4)) {
      config_.paused_topics.empty() ? config_.paused_topics.push_back("other") : config_.paused_topics.clear();
      engine_->UpdateLane(kLane, MakeSpec());
      return;
    }
    if (OneIn(3)) {
      const std::string key = "k" + std::to_string(Below(keys_));
      if (table_.paused.erase(key) == 0) {
        table_.paused.insert(key);
      } else {
        table_.PromoteAll();
      }
      engine_->UpdateLane(kLane, MakeSpec());
      return;
    }
    if (table_.rows.empty()) {
      return;
    }
    auto it = table_.rows.begin();
    std::advance(it, static_cast<long>(Below(table_.rows.size())));
    OneIn(2) ? table_.Remove(it->first) : table_.Retry(it->first);
  }

  void Outcome(FakeSink* sink) {
    if (sink == nullptr || sink->pending.empty()) {
      return;
    }
    if (!calm_ && OneIn(10)) {
      const Pending victim = sink->pending[Below(sink->pending.size())];
      const uint64_t written = OneIn(2) ? 0 : Below(sink->pending.size() + 1);
      repeats_ += written > 0 ? 1 : 0;
      sink->Abort(victim.flow, written);
      return;
    }
    for (uint64_t n = 1 + Below(4); n > 0 && !sink->pending.empty(); --n) {
      const size_t i = FirstOfItsKey(sink, Below(sink->pending.size()));
      if (away_ && sink->pending[i].record.topic == "other") {
        ++(*totals_)[kTroubles];
        sink->Fail(i, ErrorClass::kTopic, "UNKNOWN_TOPIC", OneIn(2));
        return;
      }
      if (!calm_ && OneIn(3)) {
        static constexpr ErrorClass kClasses[] = {
            ErrorClass::kMessage,     ErrorClass::kSolo,        ErrorClass::kSolo,
            ErrorClass::kSolo,        ErrorClass::kTopic,       ErrorClass::kConfig,
            ErrorClass::kDestination, ErrorClass::kFatalClient, ErrorClass::kInternal};
        const ErrorClass error_class = kClasses[Below(9)];
        const bool refused = error_class == ErrorClass::kMessage || error_class == ErrorClass::kSolo;
        if (refused) {
          refused_.insert(sink->pending[i].record.created_at);
        }
        ++(*totals_)[refused ? kRefusals : kTroubles];
        sink->Fail(i, error_class, "REFUSED", OneIn(2));
        return;
      }
      sink->Deliver(i);
    }
  }
  // The sink keeps order within flow, topic and key.
  static size_t FirstOfItsKey(const FakeSink* sink, size_t i) {
    for (size_t j = 0; j < i; ++j) {
      const Pending& a = sink->pending[j];
      const Pending& b = sink->pending[i];
      if (a.flow == b.flow && a.record.key == b.record.key) {
        return j;
      }
    }
    return i;
  }

  // All is well from now on, and time goes by. Dead letters stay dead: no operator acts any more.
  void Finish() {
    log_trouble_ = 0;
    calm_ = true;
    away_ = false;
    config_.paused_topics.clear();
    table_.paused.clear();
    table_.PromoteAll();
    engine_->UpdateLane(kLane, MakeSpec());
    parked_changed_ = true;
    for (int i = 0; i < 150 && wrong_.empty(); ++i) {
      for (FakeSink* sink : {sink_, retry_}) {
        if (sink != nullptr) {
          sink->health().up ? void() : sink->SetUp(true);
          sink->DeliverAll();
        }
      }
      clock_.now += i < 100 ? 100'000 : 40'000'000;
      Turn();
      Show();
      if (i > 2 && AtRest()) {
        return;
      }
    }
    Wrong("it does not become idle");
  }
  bool AtRest() const {
    if (!server_.sides.empty() || !sink_->pending.empty() || (retry_ != nullptr && !retry_->pending.empty()) ||
        server_.position.target || !server_.position.base.Covers(server_.Current())) {
      return false;
    }
    return std::all_of(table_.rows.begin(), table_.rows.end(), [&](const auto& entry) {
      const ParkedRow& row = entry.second;
      return row.sender == 0 &&
             (row.state == ParkedState::kDead || (row.order_key != 0 && table_.blocks() && DeadBefore(row)));
    });
  }
  bool DeadBefore(const ParkedRow& row) const {
    return std::any_of(table_.rows.begin(), table_.rows.end(), [&](const auto& entry) {
      return entry.second.order_key == row.order_key && entry.second.state == ParkedState::kDead &&
             (entry.first < row.created_at || row.state == ParkedState::kScheduled);
    });
  }

  const Row& RowOf(int64_t created_at) {
    return server_.rows[static_cast<size_t>(created_at - server_.rows.front().created_at)];  // the clock ticks by one
  }
  void CheckSubmit(const Pending& record, bool lanes) {
    const Row& row = RowOf(record.record.created_at);
    if (row.deliver_at > clock_.WallMicros()) {
      Wrong("sent before it was due");
    }
    if (lanes && table_.paused.contains(row.key)) {
      Wrong("sent although its key is paused");
    }
  }
  void CheckWrite(const Written& record) {
    const Row& row = RowOf(record.created_at);
    if (!written_.insert(record.created_at).second || row.key.empty() || row.deliver_at != 0) {
      return;
    }
    for (const Row& before : server_.rows) {
      if (before.created_at >= row.created_at) {
        break;
      }
      if (before.key != row.key || before.topic != row.topic || before.deliver_at != 0 ||
          written_.contains(before.created_at) || table_.removed.contains(before.created_at) ||
          (!table_.blocks() && table_.ever_dead.contains(before.created_at))) {
        continue;
      }
      Wrong("order of key " + row.key + " is broken: " + std::to_string(record.created_at) + " before " +
            std::to_string(before.created_at));
    }
  }
  void CheckEnd() {
    for (const Row& row : server_.rows) {
      const auto parked = table_.rows.find(row.created_at);
      if (!written_.contains(row.created_at) && parked == table_.rows.end() &&
          !table_.removed.contains(row.created_at)) {
        Wrong("an event was lost");
      }
    }
    for (const auto& [created_at, row] : table_.rows) {
      (*totals_)[kBlocked] += row.state == ParkedState::kBlocked ? 1 : 0;
      if (row.state == ParkedState::kDead && !refused_.contains(created_at) && row.topic != "not/legal" &&
          row.error.code != "SINK_DIED") {
        Wrong("dead, but never refused");
      }
    }
    if (repeats_ == 0 && broker_.log.size() != written_.size()) {
      Wrong("a duplicate without an abort or a crash");
    }
  }

  std::mt19937_64 random_;
  const uint64_t seed_;
  Totals* const totals_;
  FakeClock clock_;
  Server server_{&clock_};
  Broker broker_;
  ParkedTable table_{&server_};
  EngineOptions options_;
  format::RouteConfig config_;
  FakeSink* sink_ = nullptr;
  FakeSink* next_sink_ = nullptr;
  FakeSink* retry_ = nullptr;
  std::unique_ptr<Engine> engine_;
  uint64_t incarnation_ = 0;
  uint64_t keys_ = 1;
  bool calm_ = false;         // no trouble but late answers
  uint64_t log_trouble_ = 0;  // percent
  bool parked_changed_ = false;
  const bool sides_ = OneIn(2);  // topics in trouble leave the lane
  bool away_ = false;            // topic "other" is
  std::set<int64_t> refused_;
  std::set<int64_t> written_;
  uint64_t repeats_ = 0;
  std::string wrong_;
};

}  // namespace outbox::relay::fakes
