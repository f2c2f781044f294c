// A clock, a server with a log, and a broker with a sink, all made of plain containers, for the engine's tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/uuid.h"
#include "format/route_spec.h"
#include "relay/clock.h"
#include "relay/engine.h"
#include "relay/lane_log.h"
#include "sink/flow_gate.h"
#include "sink/record.h"
#include "sink/sink.h"

namespace outbox::relay::fakes {

class FakeClock : public Clock {
 public:
  int64_t NowMicros() override { return now; }
  int64_t WallMicros() override { return kWallAtZero + now; }
  uint64_t Random() override {  // splitmix64
    uint64_t z = (seed += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  static constexpr int64_t kWallAtZero = 1'700'000'000'000'000;
  int64_t now = 0;
  uint64_t seed = 1;
};

struct Row {
  int64_t created_at = 0;
  uint64_t xid = 0;
  Uuid id{};
  std::string type;
  std::string key;  // "": no key
  std::string event_type;
  std::string payload;
  std::string topic;  // "": none
  int64_t deliver_at = 0;
  uint64_t emitted = 0;  // step
};

// The server: transactions, the log, and what a lane has stored durably. It outlives engines that "crash".
class Server {
 public:
  explicit Server(FakeClock* clock) : clock_(clock) {}

  uint64_t Begin() {
    running_.insert(next_xid_);
    return next_xid_++;
  }
  const Row& Emit(uint64_t xid, const std::string& key, size_t payload_bytes = 10, const std::string& topic = "") {
    Row row;
    row.created_at = ++last_created_at_;
    row.xid = xid;
    row.id = MakeUuid7(row.created_at, clock_->Random());
    row.type = "order";
    row.key = key;
    row.event_type = "created";
    row.payload.assign(payload_bytes, 'x');
    row.topic = topic;
    row.emitted = ++step_;
    rows.push_back(row);
    return rows.back();
  }
  void Commit(uint64_t xid) {
    running_.erase(xid);
    commits[xid] = ++step_;
    commit_lsn[xid] = ++lsn;
    if (synchronous) {
      flushed = lsn;
    }
  }
  void Abort(uint64_t xid) { running_.erase(xid); }
  // One transaction per event.
  const Row& EmitCommitted(const std::string& key, size_t payload_bytes = 10, const std::string& topic = "") {
    const uint64_t xid = Begin();
    Emit(xid, key, payload_bytes, topic);
    Commit(xid);
    return rows.back();
  }
  Snapshot Current() const {
    Snapshot snapshot;
    snapshot.xmax = next_xid_;
    snapshot.xmin = running_.empty() ? next_xid_ : *running_.begin();
    snapshot.xip.assign(running_.begin(), running_.end());
    return snapshot;
  }
  bool Committed(uint64_t xid) const { return commits.count(xid) != 0; }
  const std::set<uint64_t>& running() const { return running_; }

  std::deque<Row> rows;
  std::map<uint64_t, uint64_t> commits;     // xid -> step
  std::map<uint64_t, uint64_t> commit_lsn;  // xid -> lsn
  uint64_t lsn = 0;
  uint64_t flushed = 0;
  bool synchronous = true;  // commits are durable at once
  std::vector<Snapshot> ticks;

  // One lane's durable state.
  Position position{*Snapshot::FromText("3:3:"), std::nullopt, kBeforeAllTime};
  std::vector<Position> saves;
  std::vector<int64_t> save_times;
  std::vector<int64_t> parked;         // created_at, in order
  std::vector<RefusedEvent> refusals;  // views are dead; error, attempts and created_at are good
  std::map<int64_t, uint64_t> parked_step;
  bool owned = true;
  // Its side lanes.
  struct SideState {
    SideLane record;
    Position position;
  };
  std::map<int32_t, SideState> sides;

  // Trouble: called with the name of each LaneLog function; true makes it fail.
  std::function<bool(const char*)> fails;
  // Called before each.
  std::function<void(const char*)> on_call;
  std::map<std::string, int> calls;
  std::string saved_under;        // the run that acknowledged what was saved last
  std::optional<Position> there;  // what another run of the server has; nothing: all
  uint64_t step() { return ++step_; }
  FakeClock* clock() { return clock_; }

 private:
  FakeClock* clock_;
  uint64_t next_xid_ = 10;
  uint64_t step_ = 0;
  int64_t last_created_at_ = FakeClock::kWallAtZero;
  std::set<uint64_t> running_;
};

class FakeLog : public LaneLog {
 public:
  // `side`: 0 for the lane's own.
  FakeLog(Server* server, std::shared_ptr<const EventFilter> filter, int32_t side = 0)
      : server_(server), filter_(std::move(filter)), side_(side) {}

  Status LoadPosition(Position* position) override {
    if (Fails("LoadPosition")) {
      return Trouble();
    }
    *position = Stored();
    return Status();
  }
  Status OpenWindow(const Position& position, Window* window, bool* opened) override {
    if (Fails("OpenWindow")) {
      return Trouble();
    }
    held_ = limit && !position.target && position.base == *limit;
    if (held_ || (ends_at_ && !position.target && position.base.Covers(*ends_at_))) {
      *opened = false;
      return Status();
    }
    Snapshot to = limit ? *limit : ends_at_ ? *ends_at_ : server_->Current();
    bool current = !limit && !ends_at_;
    int64_t done_to = kBeforeAllTime;
    if (position.target) {
      to = *position.target;
      done_to = position.done_to;
      current = false;
    } else {
      for (const Snapshot& tick : server_->ticks) {
        if (tick.Covers(position.base) && !position.base.Covers(tick) && to.Covers(tick)) {
          to = tick;
          current = false;
          break;
        }
      }
    }
    // Snapshots that differ in text may see the same: 10:20: and 10:21:20.
    if (!position.target && !limit && !ends_at_ && position.base.Covers(to)) {
      *opened = false;
      return Status();
    }
    events_.clear();
    next_ = 0;
    for (const Row& row : server_->rows) {
      if (!position.base.Visible(row.xid) && to.Visible(row.xid) && server_->Committed(row.xid) &&
          row.created_at > done_to &&
          filter_->Wants(row.type, row.key.empty() ? std::string_view() : std::string_view(row.key), row.event_type,
                         row.id, row.topic.empty() ? std::string_view() : std::string_view(row.topic))) {
        events_.push_back(&row);
      }
    }
    std::sort(events_.begin(), events_.end(), [](const Row* a, const Row* b) { return a->created_at < b->created_at; });
    window->from = position.base;
    window->to = to;
    window->durable_lsn = server_->lsn;
    window->current = current;
    *opened = true;
    return Status();
  }
  bool held() const override { return held_; }
  void LimitTo(const Snapshot* limit) override {
    ends_at_.reset();
    if (limit != nullptr) {
      ends_at_ = *limit;
    }
  }
  Status ReadChunk(size_t max_bytes, EventChunk* chunk, bool* end) override {
    if (Fails("ReadChunk")) {
      return Trouble();
    }
    if (slow_sort && ++sort_slices_ % 3 != 0) {
      *end = false;
      return Status();
    }
    size_t bytes = 0;
    while (next_ < events_.size() && (bytes == 0 || bytes < max_bytes)) {
      const Row& row = *events_[next_++];
      Event event;
      event.created_at = row.created_at;
      event.xid = row.xid;
      event.id = row.id;
      event.aggregate_type = chunk->arena.Copy(row.type);
      event.event_type = chunk->arena.Copy(row.event_type);
      event.payload = chunk->arena.Copy(row.payload);
      if (!row.key.empty()) {
        event.aggregate_id = chunk->arena.Copy(row.key);
      }
      if (!row.topic.empty()) {
        event.topic = chunk->arena.Copy(row.topic);
      }
      event.deliver_at = row.deliver_at;
      bytes += event.bytes();
      chunk->events.push_back(event);
    }
    *end = next_ == events_.size();
    return Status();
  }
  Status CheckDurable(uint64_t lsn, bool* durable) override {
    if (Fails("CheckDurable")) {
      return Trouble();
    }
    *durable = lsn <= server_->flushed;
    return Status();
  }
  Status SaveProgress(const Position& position, std::span<const sink::Place>, bool* owner) override {
    if (Fails("SaveProgress")) {
      return Trouble();
    }
    *owner = server_->owned;
    if (server_->owned && side_ != 0) {
      Stored() = position;
    } else if (server_->owned) {
      server_->position = position;
      server_->saved_under = run_;
      server_->saves.push_back(position);
      server_->save_times.push_back(server_->clock()->now);
    }
    return Status();
  }
  Status Park(const RefusedEvent& refused, bool* owner) override {
    if (Fails("Park")) {
      return Trouble();
    }
    *owner = server_->owned;
    if (server_->owned && server_->parked_step.emplace(refused.event.created_at, server_->step()).second) {
      server_->parked.push_back(refused.event.created_at);
      server_->refusals.push_back(refused);
    }
    return Status();
  }

  Status Rewind(const std::string& run, Loss* loss, bool* owner) override {
    if (Fails("Rewind")) {
      return Trouble();
    }
    *owner = server_->owned;
    if (server_->owned && server_->saved_under != run && server_->there) {
      server_->position = *server_->there;
      server_->saved_under = run;
      loss->error = {ErrorClass::kDestination, "LOST_WRITES", "the test says so"};
      loss->rewound = true;
    }
    return Status();
  }
  void SetRun(const std::string& run) override { run_ = run; }

  bool slow_sort = false;
  std::optional<Snapshot> limit;  // reads no further

 private:
  bool Fails(const char* function) {
    ++server_->calls[function];
    if (server_->on_call) {
      server_->on_call(function);
    }
    return server_->fails && server_->fails(function);
  }
  static Status Trouble() { return Status(ErrorClass::kInternal, "57014", "the log is in trouble"); }

  Position& Stored() { return side_ == 0 ? server_->position : server_->sides.at(side_).position; }

  bool held_ = false;
  std::string run_;
  Server* server_;
  std::shared_ptr<const EventFilter> filter_;
  const int32_t side_;
  std::optional<Snapshot> ends_at_;
  std::vector<const Row*> events_;
  size_t next_ = 0;
  int sort_slices_ = 0;
};

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
  void AppendWaits(std::vector<sink::WaitSpec>* waits) override { waits->push_back({7, true, false, -1}); }
  const sink::Health& health() const override { return health_; }
  void Close() override {
    pending.clear();
    closed = true;
  }

  const sink::Meeting* meeting() const override { return &meeting_; }
  void Ask(std::vector<std::string> streams) override { asked = std::move(streams); }
  bool TakeEnds(std::vector<sink::StreamEnd>* ends) override {
    const bool answered = ends_.has_value();
    *ends = std::move(ends_).value_or(std::vector<sink::StreamEnd>());
    ends_.reset();
    return answered;
  }
  void Admit(const std::string& run, bool drop) override {
    admitted.push_back(run);
    if (drop) {
      while (!pending.empty()) {
        Abort(pending[0].flow, 0);
      }
    }
    Meet("");
  }
  void Meet(const std::string& run) {
    meeting_.run = run;
    ++meeting_.number;
  }
  void AnswerEnds(std::vector<sink::StreamEnd> ends) { ends_ = std::move(ends); }

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
  // others are under way still and meet their outcome later.
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
  void SetDown(Error error) {
    health_.up = false;
    health_.error = std::move(error);
    ++health_.changes;
  }
  // The sink's process dies: everything is aborted. It is back at once. `unready`: it had not looked at anything.
  void Die(bool back = true, bool unready = false) {
    while (!pending.empty()) {
      Abort(pending[0].flow, 0);
    }
    ++health_.deaths;
    health_.unready_deaths += unready ? 1 : 0;
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
  std::vector<std::string> admitted;
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
  sink::Meeting meeting_;
  std::optional<std::vector<sink::StreamEnd>> ends_;
  std::vector<sink::Result> results_;
};

// Gives `sink` to the lanes, and what `retry` makes to parked events.
inline SinkFactory Factory(std::unique_ptr<FakeSink> sink, std::function<std::unique_ptr<FakeSink>()> retry = nullptr) {
  auto first = std::make_shared<std::unique_ptr<FakeSink>>(std::move(sink));
  return [first, retry]() -> std::unique_ptr<sink::Sink> { return *first != nullptr ? std::move(*first) : retry(); };
}

inline std::shared_ptr<const format::RouteSpec> Spec(format::RouteConfig config = {}) {
  format::TemplateError error;
  config.kind = format::DestinationKind::kKafka;
  return format::RouteSpec::Make(config, &error);
}

}  // namespace outbox::relay::fakes
