// matrix: A1s D3
// The engine under random transactions, outcomes, aborts, outages, log errors, crashes, stops and replaced sinks, over
// many keys. Checked all the time: nothing is published that is not committed and durable, nothing that a saved
// position covers is sent again, a saved position covers only what was delivered or parked, a barrier is kept. Checked
// at the end: nothing is lost, order per key holds for first occurrences, no duplicate without an abort or a crash.
//
// A failure prints its seed; OUTBOX_SEED=n runs that case alone.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "relay_fakes.h"

namespace outbox::relay {
namespace {

using fakes::Broker;
using fakes::FakeClock;
using fakes::FakeLog;
using fakes::FakeSink;
using fakes::Pending;
using fakes::Row;
using fakes::Server;

constexpr DestinationId kDestination = 1;
constexpr LaneId kLane{1, 0};

struct Totals {
  uint64_t events = 0;
  uint64_t crashes = 0;
  uint64_t aborts = 0;
  uint64_t failures = 0;
  uint64_t duplicates = 0;
  uint64_t parked = 0;
};

class Case {
 public:
  explicit Case(uint64_t seed) : random_(seed), seed_(seed) {
    clock_.seed = seed;
    keys_ = 1 + Below(6);
    large_ = OneIn(6);
    calm_ = OneIn(8);
    options_.max_inflight = large_ ? 64 * 1024 : 1024 * 1024;
    server_.synchronous = OneIn(2);
    server_.tells_rest = OneIn(2);
    server_.fails = [this](const char*) { return log_trouble_ > 0 && Below(100) < log_trouble_; };
    Start();
  }

  // "" or what went wrong.
  std::string Run(Totals* totals) {
    const uint64_t steps = 15 + Below(50);
    for (uint64_t i = 0; i < steps && wrong_.empty(); ++i) {
      Act();
    }
    Finish();
    if (wrong_.empty()) {
      CheckEnd();
    }
    totals->events += server_.rows.size();
    totals->crashes += crashes_;
    totals->aborts += aborts_;
    totals->failures += failures_;
    totals->duplicates += broker_.log.size() - first_.size();
    totals->parked += server_.parked.size();
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

  std::unique_ptr<FakeSink> MakeSink() {
    auto made = std::make_unique<FakeSink>(&broker_, &server_);
    made->merge_results = !OneIn(3);
    made->on_submit = [this](const Pending& record) { CheckSubmit(record); };
    return made;
  }
  void Start() {
    engine_ = std::make_unique<Engine>(&clock_, options_);
    auto made = MakeSink();
    sink_ = made.get();
    engine_->SetDestination(kDestination, fakes::Factory(std::move(made)), 0);
    AddLane();
  }
  void AddLane() {
    LaneLogs logs = fakes::Logs(&server_, spec_);
    static_cast<FakeLog*>(logs.log.get())->slow_sort = OneIn(4);
    engine_->AddLane(kLane, spec_, std::move(logs), kDestination);
    barrier_base_ = barrier_;
  }
  // What was in flight may have been written, in order, up to somewhere.
  void LoseInFlight() {
    for (uint64_t n = Below(sink_->pending.size() + 1), i = 0; i < n; ++i) {
      sink_->Write(sink_->pending[i]);
    }
    sink_->pending.clear();
  }

  void Turn() {
    const uint64_t barrier = barrier_;
    engine_->Turn({OneIn(2), barrier});
    CheckTurn();
    std::vector<GoneLane> gone;
    engine_->TakeGone(&gone);
    for (const GoneLane& lane : gone) {
      unclean_ |= lane.reason != GoneReason::kReleased;
    }
    if (!gone.empty()) {
      AddLane();
    }
  }

  void Act() {
    switch (Below(20)) {
      case 0:
      case 1:
      case 2: {  // a transaction, or a piece of one
        const uint64_t xid = server_.running().empty() || OneIn(2) ? server_.Begin() : *server_.running().rbegin();
        for (uint64_t n = 1 + Below(4); n > 0; --n) {
          const uint64_t key = Below(keys_ + 1);
          server_.Emit(xid, key == keys_ ? "" : "k" + std::to_string(key), large_ ? Below(12'000) : 8,
                       OneIn(40)   ? "not/legal"
                       : OneIn(10) ? "other"
                                   : "");
        }
        break;
      }
      case 3:
      case 4:
      case 5:
        if (!server_.running().empty()) {
          auto it = server_.running().begin();
          std::advance(it, static_cast<long>(Below(server_.running().size())));
          const uint64_t xid = *it;
          OneIn(6) ? server_.Abort(xid) : server_.Commit(xid);
        }
        break;
      case 6:
        server_.flushed = server_.lsn - Below(server_.lsn - server_.flushed + 1);
        break;
      case 7:
        server_.ticks.push_back(server_.Current());
        break;
      case 8:
        clock_.now += static_cast<int64_t>(Below(3'000'000));
        break;
      case 9:
        log_trouble_ = OneIn(3) ? Below(80) : 0;
        break;
      case 10: {
        ++barrier_;
        for (const Row& row : server_.rows) {
          if (server_.Committed(row.xid)) {
            barrier_rows_[barrier_].push_back(row.created_at);
          }
        }
        break;
      }
      case 11:
        calm_ ? void() : Disturb();
        break;
      case 12:
      case 13:
      case 14:
        Outcome();
        break;
      default:
        clock_.now += 1000;
        Turn();
    }
  }

  void Disturb() {
    switch (Below(6)) {
      case 0:  // crash
        ++crashes_;
        LoseInFlight();
        engine_.reset();
        Start();
        break;
      case 1: {  // the destination's options changed
        auto made = MakeSink();
        FakeSink* next = made.get();
        const bool patient = OneIn(2);
        engine_->SetDestination(kDestination, fakes::Factory(std::move(made)),
                                patient ? clock_.now + 1'000'000 : clock_.now);
        if (patient) {
          sink_->DeliverAll();
        } else {
          ++crashes_;
          LoseInFlight();
        }
        sink_ = next;  // the old one goes in this turn
        Turn();
        break;
      }
      case 2:  // orderly stop of the lane, perhaps too impatient
        engine_->ReleaseLane(kLane, clock_.now + static_cast<int64_t>(Below(1000)));
        break;
      case 3:
        sink_->SetUp(!sink_->health().up);
        break;
      default:
        Outcome();
    }
  }

  void Outcome() {
    if (sink_->pending.empty()) {
      return;
    }
    if (!calm_ && OneIn(4)) {
      const Pending victim = sink_->pending[Below(sink_->pending.size())];
      uint64_t mine = 0;
      for (const Pending& record : sink_->pending) {
        mine += record.flow == victim.flow ? 1 : 0;
      }
      const uint64_t written = OneIn(2) ? 0 : Below(mine + 1);
      ++aborts_;
      crashes_ += written > 0 ? 1 : 0;
      sink_->Abort(victim.flow, written);
      return;
    }
    for (uint64_t n = 1 + Below(6); n > 0 && !sink_->pending.empty(); --n) {
      const size_t i = FirstOfItsKey(Below(sink_->pending.size()));
      if (!calm_ && OneIn(8)) {
        ++failures_;
        static constexpr ErrorClass kClasses[] = {ErrorClass::kMessage, ErrorClass::kSolo,   ErrorClass::kTopic,
                                                  ErrorClass::kSolo,    ErrorClass::kConfig, ErrorClass::kDestination};
        const ErrorClass error_class = kClasses[Below(6)];
        if (error_class == ErrorClass::kMessage || error_class == ErrorClass::kSolo) {
          refused_.insert(sink_->pending[i].record.created_at);
        }
        sink_->Fail(i, error_class, "REFUSED", OneIn(2));
        return;
      }
      sink_->Deliver(i);
    }
  }
  // The sink keeps order within flow, topic and key.
  size_t FirstOfItsKey(size_t i) const {
    for (size_t j = 0; j < i; ++j) {
      const auto& a = sink_->pending[j];
      const auto& b = sink_->pending[i];
      if (a.flow == b.flow && a.record.key == b.record.key) {
        return j;
      }
    }
    return i;
  }

  void Finish() {
    while (!server_.running().empty()) {
      server_.Commit(*server_.running().begin());
    }
    server_.flushed = server_.lsn;
    log_trouble_ = 0;
    calm_ = true;
    sink_->SetUp(true);
    for (int i = 0; i < 400 && wrong_.empty(); ++i) {
      sink_->DeliverAll();
      clock_.now += 1'000'000;
      Turn();
      if (sink_->pending.empty() && i > 3 && server_.position.base.Covers(server_.Current()) &&
          !server_.position.target) {
        return;
      }
    }
    Wrong("it does not become idle");
  }

  bool Covered(const Position& position, const Row& row) const {
    return position.base.Visible(row.xid) ||
           (position.target && position.target->Visible(row.xid) && row.created_at <= position.done_to);
  }
  const Row& RowOf(int64_t created_at) {
    const int64_t first = server_.rows.front().created_at;
    return server_.rows[static_cast<size_t>(created_at - first)];  // the clock ticks by one
  }
  bool Resolved(int64_t created_at) {
    for (; seen_ < broker_.log.size(); ++seen_) {
      first_.emplace(broker_.log[seen_].created_at, broker_.log[seen_].step);
    }
    return first_.count(created_at) != 0 || server_.parked_step.count(created_at) != 0;
  }

  void CheckSubmit(const Pending& record) {
    const Row& row = RowOf(record.record.created_at);
    if (!server_.Committed(row.xid)) {
      Wrong("a phantom");
    } else if (server_.commit_lsn[row.xid] > server_.flushed) {
      Wrong("published before it was durable");
    } else if (Covered(server_.position, row)) {
      Wrong("sent again although a saved position covers it");
    }
  }
  void CheckTurn() {
    if (sink_->malformed) {
      Wrong("a malformed batch");
    }
    for (; saves_ < server_.saves.size(); ++saves_) {
      for (const Row& row : server_.rows) {
        if (server_.Committed(row.xid) && Covered(server_.saves[saves_], row) && !Resolved(row.created_at)) {
          Wrong("a saved position covers what was neither delivered nor parked");
        }
      }
    }
    engine_->Lanes(&statuses_);
    for (const LaneStatus& lane : statuses_) {
      for (auto it = barrier_rows_.begin(); it != barrier_rows_.end() && it->first <= lane.barrier_done;
           it = barrier_rows_.erase(it)) {
        for (int64_t created_at : it->second) {
          if (!Resolved(created_at)) {
            Wrong("a barrier was reported too early");
          }
        }
      }
    }
  }
  void CheckEnd() {
    if (!barrier_rows_.empty()) {
      Wrong("a barrier was never reported");
    }
    std::unordered_map<std::string, std::vector<const Row*>> by_key;
    uint64_t committed = 0;
    for (const Row& row : server_.rows) {
      if (!server_.Committed(row.xid)) {
        continue;
      }
      ++committed;
      if (!Resolved(row.created_at)) {
        Wrong("an event was lost");
        return;
      }
      if (!row.key.empty()) {
        by_key[row.key].push_back(&row);
      }
    }
    for (int64_t created_at : server_.parked) {
      if (refused_.count(created_at) == 0 && RowOf(created_at).topic != "not/legal") {
        Wrong("parked, but never refused");
      }
    }
    if (crashes_ == 0 && !unclean_ && broker_.log.size() + server_.parked.size() != committed) {
      Wrong("a duplicate without an abort or a crash");
    }
    for (const auto& [key, rows] : by_key) {
      for (size_t i = 0; i < rows.size(); ++i) {
        for (size_t j = i + 1; j < rows.size(); ++j) {
          const bool promised = rows[i]->xid == rows[j]->xid || server_.commits[rows[i]->xid] < rows[j]->emitted;
          const auto later = first_.find(rows[j]->created_at);
          if (promised && later != first_.end() && FirstStep(rows[i]->created_at) > later->second) {
            Wrong("order of key " + key + " is broken");
          }
        }
      }
    }
  }
  // First written, or parked.
  uint64_t FirstStep(int64_t created_at) {
    uint64_t step = UINT64_MAX;
    if (auto found = first_.find(created_at); found != first_.end()) {
      step = found->second;
    }
    if (auto found = server_.parked_step.find(created_at); found != server_.parked_step.end()) {
      step = std::min(step, found->second);
    }
    return step;
  }

  std::mt19937_64 random_;
  const uint64_t seed_;
  FakeClock clock_;
  Server server_{&clock_};
  Broker broker_;
  EngineOptions options_;
  static inline const std::shared_ptr<const format::RouteSpec>& spec_ =
      *new std::shared_ptr<const format::RouteSpec>(fakes::Spec());
  std::unique_ptr<Engine> engine_;
  FakeSink* sink_ = nullptr;
  uint64_t keys_ = 1;
  bool large_ = false;
  bool calm_ = false;         // no trouble but late answers
  uint64_t log_trouble_ = 0;  // percent
  uint64_t barrier_ = 0;
  uint64_t barrier_base_ = 0;
  std::map<uint64_t, std::vector<int64_t>> barrier_rows_;
  std::unordered_set<int64_t> refused_;
  std::unordered_map<int64_t, uint64_t> first_;  // created_at -> step of the first occurrence
  size_t seen_ = 0;
  size_t saves_ = 0;
  uint64_t crashes_ = 0;  // and everything else after which a duplicate is legal
  uint64_t aborts_ = 0;
  uint64_t failures_ = 0;
  bool unclean_ = false;
  std::vector<LaneStatus> statuses_;
  std::string wrong_;
};

TEST(RelayProperty, TwentyThousandRandomCases) {
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
  std::printf("%llu events, %llu possible repeats, %llu aborts, %llu failures, %llu duplicates, %llu parked\n",
              static_cast<unsigned long long>(totals.events), static_cast<unsigned long long>(totals.crashes),
              static_cast<unsigned long long>(totals.aborts), static_cast<unsigned long long>(totals.failures),
              static_cast<unsigned long long>(totals.duplicates), static_cast<unsigned long long>(totals.parked));
  // The cases must have met what they are about.
  EXPECT_GT(totals.events, cases * 10);
  EXPECT_GT(totals.crashes, cases / 10);
  EXPECT_GT(totals.aborts, cases / 10);
  EXPECT_GT(totals.failures, cases / 10);
  EXPECT_GT(totals.duplicates, cases / 10);
  EXPECT_GT(totals.parked, cases / 20);
}

}  // namespace
}  // namespace outbox::relay
