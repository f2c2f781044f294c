// A broker with a sink of plain containers, beside the clock and the server of relay_fake_log.h, for the engine's
// tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "relay_fake_log.h"
#include "sink/flow_gate.h"
#include "sink/record.h"
#include "sink/sink.h"

namespace outbox::relay::fakes {

struct Written {
  int64_t created_at;
  std::string topic;
  std::string key;
  uint64_t step;
};

// What reached the destination; outlives sinks.
struct Broker {
  std::vector<Written> log;
  std::function<void(const Written&)> on_write;  // before it is in the log
  std::vector<int64_t> Order() const {
    std::vector<int64_t> order;
    for (const Written& written : log) {
      order.push_back(written.created_at);
    }
    return order;
  }
};

struct Pending {
  uint32_t flow;
  uint32_t epoch;
  uint64_t seq;
  uint32_t batch_count;  // records of its Submit
  Written record;
};

// Keeps the contract of sink.h to the letter; the test says which record meets what.
class FakeSink : public sink::Sink {
 public:
  FakeSink(Broker* broker, Server* server) : broker_(broker), server_(server) {}
  ~FakeSink() override {
    if (on_close) {
      on_close();
    }
  }

  void Submit(sink::Batch batch) override {
    ++submits;
    sink::RecordReader reader(batch.records);
    sink::Record record;
    uint64_t seq = batch.first_seq;
    uint32_t count = 0;
    while (reader.Next(&record)) {
      ++count;
      int64_t created_at = 0;
      for (const sink::Field& field : record.fields) {
        if (field.name == "created_at") {
          created_at = std::stoll(std::string(field.value));
        }
      }
      Pending one{batch.flow, batch.epoch, seq++, batch.count,
                  Written{created_at, std::string(record.topic), std::string(record.key), 0}};
      if (on_submit) {
        on_submit(one);
      }
      if (gate_.Admits(batch.flow, batch.epoch)) {
        pending.push_back(std::move(one));
      } else {
        Report(one, sink::Outcome::kAborted);
      }
    }
    malformed |= !reader.ok() || count != batch.count || batch.first_seq <= highest_seq;
    highest_seq = seq - 1;
  }
  void Poll(std::vector<sink::Result>* results) override {
    if (on_poll) {
      on_poll();
    }
    results->insert(results->end(), results_.begin(), results_.end());
    results_.clear();
  }
  void TakePlaces(std::vector<sink::Place>* taken) override {
    taken->insert(taken->end(), places.begin(), places.end());
    places.clear();
  }
  void AppendWaits(std::vector<sink::WaitSpec>* waits) override { waits->push_back({7, true, false, -1}); }
  const sink::Health& health() const override { return health_; }
  void Close() override {
    pending.clear();
    closed = true;
  }

  const sink::ServerIdentity* identity() const override { return &identity_; }
  void Ask(std::vector<sink::AskedStream> streams) override {
    for (const sink::AskedStream& one : streams) {
      asked.push_back(one.stream);
    }
  }
  bool TakeEnds(std::vector<sink::StreamEnd>* ends) override {
    const bool answered = ends_.has_value();
    *ends = std::move(ends_).value_or(std::vector<sink::StreamEnd>());
    ends_.reset();
    return answered;
  }
  void IdentifyAgain() override {
    ++met_again;
    Meet("");
  }
  void Admit(const std::string& server_run, bool drop) override {
    admitted.push_back(server_run);
    if (drop) {
      while (!pending.empty()) {
        Abort(pending[0].flow, 0);
      }
    }
    Meet("");
  }
  void Meet(const std::string& server_run) {
    identity_.server_run = server_run;
    ++identity_.number;
  }
  // Streams with their last ids.
  void AnswerEnds(const std::vector<std::pair<std::string, std::string>>& ends) {
    ends_.emplace();
    for (const auto& [stream, last] : ends) {
      ends_->push_back({stream, last, last, last, false});
    }
  }

  // The i-th pending record reaches the broker.
  void Deliver(size_t i = 0) {
    Write(pending[i]);
    Report(pending[i], sink::Outcome::kDelivered);
    pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(i));
  }
  void DeliverAll() {
    while (!pending.empty()) {
      Deliver();
    }
  }
  // The i-th pending record is refused; the rest of its flow is aborted, or at least the rest of its key: then the
  // others are in flight still and meet their outcome later.
  void Fail(size_t i, ErrorClass error_class, const std::string& code = "REFUSED", bool others_too = true) {
    const Pending failed = pending[i];
    Report(failed, sink::Outcome::kFailed, {error_class, code, "refused by the test"});
    pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(i));
    gate_.Poison(failed.flow, failed.epoch);
    if (others_too) {
      Abort(failed.flow, 0);
      return;
    }
    for (size_t j = 0; j < pending.size();) {
      if (pending[j].flow == failed.flow && pending[j].record.key == failed.record.key) {
        Report(pending[j], sink::Outcome::kAborted);
        pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(j));
      } else {
        ++j;
      }
    }
  }
  // The flow is aborted; the first `written` of its pending records reached the broker all the same.
  void Abort(uint32_t flow, size_t written) {
    for (size_t i = 0; i < pending.size();) {
      if (pending[i].flow != flow) {
        ++i;
        continue;
      }
      if (written > 0) {
        Write(pending[i]);
        --written;
      }
      gate_.Poison(flow, pending[i].epoch);
      Report(pending[i], sink::Outcome::kAborted);
      pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  void SetUp(bool up) {
    health_.up = up;
    health_.error = up ? Error{} : Error{ErrorClass::kDestination, "DOWN", "the test says so"};
    ++health_.changes;
  }
  void SetSending(bool sending) {
    health_.sending = sending;
    ++health_.changes;
  }
  // All that is pending is delivered, to that place of partition 0 of topic "t".
  void DeliverAt(const char* first, const char* last) {
    places.push_back({0, "t", 0, first, last});
    health_.cluster = "c";
    DeliverAll();
  }
  void SetWarning(Error warning) {
    health_.warning = std::move(warning);
    ++health_.changes;
  }
  void SetDown(Error error) {
    health_.up = false;
    health_.error = std::move(error);
    ++health_.changes;
  }
  // The sink's process dies: everything is aborted. It is back at once. `unready`: it had not looked at anything.
  // `killed`: from outside.
  void Die(bool back = true, bool unready = false, bool killed = false) {
    while (!pending.empty()) {
      Abort(pending[0].flow, 0);
    }
    ++health_.deaths;
    health_.unready_deaths += unready ? 1 : 0;
    health_.kills += killed && !unready ? 1 : 0;
    health_.unready_kills += killed && unready ? 1 : 0;
    SetUp(false);
    health_.error.code = "SINK_DIED";
    if (back) {
      SetUp(true);
    }
  }
  void Write(const Pending& record) {
    if (broker_->on_write) {
      broker_->on_write(record.record);
    }
    broker_->log.push_back(record.record);
    broker_->log.back().step = server_->step();
  }

  std::vector<std::string> asked;
  int met_again = 0;
  std::vector<std::string> admitted;
  std::vector<sink::Place> places;  // taken with the next results
  std::deque<Pending> pending;
  std::function<void(const Pending&)> on_submit;
  std::function<void()> on_poll;
  std::function<void()> on_close;
  int submits = 0;
  uint64_t highest_seq = 0;
  bool malformed = false;
  bool closed = false;
  bool merge_results = true;

 private:
  void Report(const Pending& record, sink::Outcome outcome, Error error = {}) {
    if (merge_results && outcome != sink::Outcome::kFailed && !results_.empty()) {
      sink::Result& last = results_.back();
      if (last.flow == record.flow && last.outcome == outcome && last.first_seq + last.count == record.seq) {
        ++last.count;
        return;
      }
    }
    results_.push_back({record.flow, record.seq, 1, outcome, std::move(error)});
  }

  Broker* broker_;
  Server* server_;
  sink::FlowGate gate_;
  sink::Health health_;
  sink::ServerIdentity identity_;
  std::optional<std::vector<sink::StreamEnd>> ends_;
  std::vector<sink::Result> results_;
};

// Gives `sink` to the lanes, and what `retry` makes to parked events.
inline SinkFactory Factory(std::unique_ptr<FakeSink> sink, std::function<std::unique_ptr<FakeSink>()> retry = nullptr) {
  auto first = std::make_shared<std::unique_ptr<FakeSink>>(std::move(sink));
  return [first, retry]() -> std::unique_ptr<sink::Sink> { return *first != nullptr ? std::move(*first) : retry(); };
}

// What is refused is dead: see FakeDeadLetters.
inline format::RouteConfig OneAttempt() {
  format::RouteConfig config;
  config.policy.max_attempts = 1;
  return config;
}

inline std::shared_ptr<const format::RouteSpec> Spec(format::RouteConfig config = OneAttempt()) {
  format::TemplateError error;
  config.kind = sink::FindKind("outbox_kafka");
  return format::RouteSpec::Make(config, &error);
}

}  // namespace outbox::relay::fakes
