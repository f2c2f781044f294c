// A server with a log, made of plain containers, for the engine's tests. The sink is in relay_fakes.h.
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
#include "relay/common/lane_log.h"
#include "relay/engine.h"
#include "relay_fake_clock.h"
#include "relay_fake_dead.h"
#include "sink/sink.h"

namespace outbox::relay::fakes {

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
  std::vector<int64_t> parked;    // created_at, in order
  std::vector<Parking> refusals;  // views are dead; error, attempts and created_at are good
  std::map<int64_t, uint64_t> parked_step;
  bool owned = true;
  bool tells_rest = false;  // logs know when there is nothing for their lane
  uint64_t rested = 0;      // so often
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
  bool Fails(const char* function) {
    ++calls[function];
    if (on_call) {
      on_call(function);
    }
    return fails && fails(function);
  }
  const char* trouble = "57014";
  Status Trouble() const { return Status(ErrorClass::kInternal, trouble, "the log is in trouble"); }
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
    if (server_->Fails("LoadPosition")) {
      return server_->Trouble();
    }
    *position = Stored();
    read_to_ = position->target ? *position->target : position->base;
    return Status();
  }
  // Truthful.
  bool rests() const override {
    if (!server_->tells_rest || limit || ends_at_ || next_ < events_.size()) {
      return false;
    }
    const Snapshot now = server_->Current();
    const bool rests = std::none_of(server_->rows.begin(), server_->rows.end(), [&](const Row& row) {
      return !read_to_.Visible(row.xid) && now.Visible(row.xid) && server_->Committed(row.xid) && Wants(row);
    });
    server_->rested += rests ? 1 : 0;
    return rests;
  }
  Status OpenWindow(const Position& position, Window* window, bool* opened) override {
    if (server_->Fails("OpenWindow")) {
      return server_->Trouble();
    }
    stopped_ = limit && !position.target && position.base == *limit;
    if (stopped_ || (ends_at_ && !position.target && position.base.Covers(*ends_at_))) {
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
          row.created_at > done_to && Wants(row)) {
        events_.push_back(&row);
      }
    }
    std::sort(events_.begin(), events_.end(), [](const Row* a, const Row* b) { return a->created_at < b->created_at; });
    window->from = position.base;
    window->to = to;
    read_to_ = to;
    window->durable_lsn = server_->lsn;
    window->current = current;
    *opened = true;
    return Status();
  }
  bool stopped() const override { return stopped_; }
  void LimitTo(const Snapshot* limit) override {
    ends_at_.reset();
    if (limit != nullptr) {
      ends_at_ = *limit;
    }
  }
  Status ReadChunk(size_t max_bytes, EventChunk* chunk, bool* end) override {
    if (server_->Fails("ReadChunk")) {
      return server_->Trouble();
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
    if (server_->Fails("CheckDurable")) {
      return server_->Trouble();
    }
    *durable = lsn <= server_->flushed;
    return Status();
  }
  Status SaveProgress(std::span<ProgressSave> saves) override {
    if (server_->Fails("SaveProgress")) {
      return server_->Trouble();
    }
    for (ProgressSave& save : saves) {
      save.owner = static_cast<FakeLog*>(save.log)->Store(save.position);
    }
    return Status();
  }
  Status Rewind(const std::string& server_run, bool, Loss* loss) override {
    if (server_->Fails("Rewind")) {
      return server_->Trouble();
    }
    if (server_->owned && server_->saved_under != server_run && server_->there) {
      server_->position = *server_->there;
      server_->saved_under = server_run;
      loss->error = {ErrorClass::kDestination, "LOST_WRITES", "the test says so"};
      loss->rewound = true;
    }
    return Status().OfOwner(server_->owned);
  }
  void SetServerRun(const std::string& server_run) override { server_run_ = server_run; }

  bool slow_sort = false;
  std::optional<Snapshot> limit;  // reads no further

 private:
  bool Wants(const Row& row) const {
    return filter_->Wants(row.type, row.key.empty() ? std::string_view() : std::string_view(row.key), row.event_type,
                          row.id, row.topic.empty() ? std::string_view() : std::string_view(row.topic));
  }
  bool Store(const Position& position) {
    if (server_->owned && side_ != 0) {
      Stored() = position;
    } else if (server_->owned) {
      server_->position = position;
      server_->saved_under = server_run_;
      server_->saves.push_back(position);
      server_->save_times.push_back(server_->clock()->now);
    }
    return server_->owned;
  }
  Position& Stored() { return side_ == 0 ? server_->position : server_->sides.at(side_).position; }

  bool stopped_ = false;
  Snapshot read_to_;
  std::string server_run_;
  Server* server_;
  std::shared_ptr<const EventFilter> filter_;
  const int32_t side_;
  std::optional<Snapshot> ends_at_;
  std::vector<const Row*> events_;
  size_t next_ = 0;
  int sort_slices_ = 0;
};

// The server's parked table, as far as a test of something else looks at it: what was refused.
class FakeDeadLetters : public DeadParkedLog {
 public:
  explicit FakeDeadLetters(Server* server) : server_(server) {}
  Status Park(std::span<const Parking> events, int64_t*) override {
    if (server_->Fails("Park")) {
      return server_->Trouble();
    }
    for (const Parking& parking : events) {
      if (server_->owned && server_->parked_step.emplace(parking.event.created_at, server_->step()).second) {
        server_->parked.push_back(parking.event.created_at);
        server_->refusals.push_back(parking);
      }
    }
    return Status().OfOwner(server_->owned);
  }

 private:
  Server* server_;
};

// What a lane on that server reads and writes. Its topics stay with it.
inline LaneLogs Logs(Server* server, const std::shared_ptr<const format::RouteSpec>& spec) {
  LaneLogs logs;
  logs.filter = std::make_shared<LaneFilter>(spec);
  logs.log = std::make_unique<FakeLog>(server, logs.filter);
  logs.parked = std::make_unique<FakeDeadLetters>(server);
  return logs;
}

}  // namespace outbox::relay::fakes
