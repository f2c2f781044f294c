// outbox_internal.parked made of a plain map, for the engine's tests: what log/ promises to the engine, what operators
// do, and checks that the engine keeps to the contract of parked_log.h.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "relay/common/parked_log.h"
#include "relay_fakes.h"

namespace outbox::relay::fakes {

struct ParkedRow {
  int64_t created_at = 0;
  Uuid id{};
  std::string type;
  std::string key;    // "": none
  std::string topic;  // own; "": none
  std::string resolved;
  std::string payload;
  uint64_t order_key = 0;
  ParkedState state = ParkedState::kDead;
  int64_t due = 0;
  uint64_t sender = 0;
  int attempts = 0;
  Error error;
};

// The table. Outlives engines.
class ParkedTable {
 public:
  explicit ParkedTable(Server* server) : server_(server) {}

  std::map<int64_t, ParkedRow> rows;  // by created_at
  format::OnFailure on_failure = format::OnFailure::kSkip;
  std::set<std::string> paused;              // keys
  std::map<int64_t, std::string> delivered;  // created_at -> place
  std::set<int64_t> ever_dead;
  std::set<int64_t> removed;  // by an operator
  std::string wrong;          // the contract was broken
  std::map<std::string, int> calls;
  size_t largest_park = 0;
  uint64_t charged = 0;

  bool blocks() const { return on_failure == format::OnFailure::kBlock; }
  Server* server() { return server_; }
  void Wrong(const std::string& what) {
    if (wrong.empty()) {
      wrong = what;
    }
  }
  static bool Waits(const ParkedRow& row) {
    return row.state == ParkedState::kRetrying || row.state == ParkedState::kBlocked;
  }
  bool Holds(uint64_t key) const {
    return key != 0 && std::any_of(rows.begin(), rows.end(), [&](const auto& entry) {
             const ParkedRow& row = entry.second;
             return row.order_key == key && (Waits(row) || (row.state == ParkedState::kDead && blocks()));
           });
  }
  // The first that waits, if nothing keeps it back.
  ParkedRow* FreeHead(uint64_t key) {
    for (auto& [created_at, row] : rows) {
      if (row.order_key != key || key == 0) {
        continue;
      }
      if (row.state == ParkedState::kDead && blocks()) {
        return nullptr;
      }
      if (Waits(row)) {
        return paused.contains(row.key) ? nullptr : &row;
      }
    }
    return nullptr;
  }
  // Blocked events of the key that nothing holds begin to retry.
  void Promote(uint64_t key) {
    ParkedRow* head = FreeHead(key);
    if (head == nullptr || head->state != ParkedState::kBlocked) {
      return;
    }
    int left = 4;
    for (auto it = rows.find(head->created_at); it != rows.end() && left > 0; ++it) {
      ParkedRow& row = it->second;
      if (row.order_key == key && row.state == ParkedState::kDead && blocks()) {
        break;
      }
      if (row.order_key == key && row.state == ParkedState::kBlocked) {
        row.state = ParkedState::kRetrying;
        row.attempts = 0;
        row.due = server_->clock()->WallMicros();
        --left;
      }
    }
  }
  void PromoteAll() {
    std::set<uint64_t> keys;
    for (const auto& [created_at, row] : rows) {
      keys.insert(row.order_key);
    }
    for (uint64_t key : keys) {
      Promote(key);
    }
  }
  int64_t NextDue() const {
    int64_t next = INT64_MAX;
    for (const auto& [created_at, row] : rows) {
      if ((row.state == ParkedState::kRetrying || row.state == ParkedState::kScheduled) && row.sender == 0) {
        next = std::min(next, row.due);
      }
    }
    return next;
  }

  // Returns false if it is there already.
  bool Insert(const Parking& parking) {
    ParkedRow row;
    row.created_at = parking.event.created_at;
    row.id = parking.event.id;
    row.type = parking.event.aggregate_type;
    row.key = IsNull(parking.event.aggregate_id) ? "" : parking.event.aggregate_id;
    row.topic = IsNull(parking.event.topic) ? "" : parking.event.topic;
    row.resolved = parking.topic;
    row.payload = IsNull(parking.event.payload) ? "" : parking.event.payload;
    row.order_key = parking.order_key;
    row.state = parking.state;
    row.due = parking.due;
    row.attempts = parking.attempts;
    row.error = parking.error;
    delivered.erase(row.created_at);  // a lane that could not tell of it any more parks it again
    if (!rows.emplace(row.created_at, row).second) {
      return false;
    }
    if (row.state == ParkedState::kDead) {
      ever_dead.insert(row.created_at);
    } else if (row.state == ParkedState::kBlocked && !parking.paused) {
      Promote(row.order_key);
    }
    return true;
  }

  // --- operators. False: it is being sent just now ---
  bool Remove(int64_t created_at) {
    auto found = rows.find(created_at);
    if (found == rows.end() || found->second.sender != 0) {
      return false;
    }
    const uint64_t key = found->second.order_key;
    removed.insert(created_at);
    rows.erase(found);
    Promote(key);
    return true;
  }
  bool Retry(int64_t created_at) {
    auto found = rows.find(created_at);
    if (found == rows.end() || found->second.sender != 0 || found->second.state != ParkedState::kDead) {
      return false;
    }
    found->second.state = ParkedState::kBlocked;
    found->second.attempts = 0;
    Promote(found->second.order_key);
    if (found->second.order_key == 0) {
      found->second.state = ParkedState::kRetrying;
      found->second.due = server_->clock()->WallMicros();
    }
    return true;
  }

 private:
  Server* server_;
};

// One worker's view of it.
class FakeParkedLog : public ParkedLog {
 public:
  FakeParkedLog(ParkedTable* table, uint64_t incarnation) : table_(table), incarnation_(incarnation) {}

  Status LoadHeld(format::RecordFormat*, bool, std::vector<uint64_t>* keys, int64_t* next_due) override {
    if (Fails("LoadHeld")) {
      return Trouble();
    }
    if (!table_->server()->owned) {
      return Status().OfOwner(false);
    }
    for (auto& [created_at, row] : table_->rows) {
      if (claimed_.empty()) {
        row.sender = 0;
      }
    }
    table_->PromoteAll();
    for (const auto& [created_at, row] : table_->rows) {
      if (table_->Holds(row.order_key)) {
        keys->push_back(row.order_key);
      }
    }
    *next_due = table_->NextDue();
    return Status();
  }

  Status Park(std::span<const Parking> events, int64_t* next_due) override {
    if (Fails("Park")) {
      return Trouble();
    }
    if (!table_->server()->owned) {
      return Status().OfOwner(false);
    }
    table_->largest_park = std::max(table_->largest_park, events.size());
    for (const Parking& parking : events) {
      CheckParking(parking);
      table_->Insert(parking);
    }
    *next_due = table_->NextDue();
    return Status();
  }

  Status Claim(const ClaimLimits& limits, ClaimedChunk* chunk, int64_t* next_due) override {
    if (Fails("Claim")) {
      return Trouble();
    }
    if (!table_->server()->owned) {
      return Status().OfOwner(false);
    }
    if (!claimed_.empty()) {
      table_->Wrong("a claim before the last one was settled");
    }
    std::set<uint64_t> stopped;
    for (auto& [created_at, row] : table_->rows) {
      const bool dead_holds = row.state == ParkedState::kDead && table_->blocks();
      if (!Due(row, limits) || stopped.contains(row.order_key)) {
        if (row.order_key != 0 && (ParkedTable::Waits(row) || dead_holds)) {
          stopped.insert(row.order_key);
        }
        continue;
      }
      if (row.state == ParkedState::kScheduled && !ScheduledMayGo(row)) {
        continue;
      }
      if (claimed_.size() >= limits.max_events) {
        break;
      }
      row.sender = incarnation_;
      claimed_.insert(created_at);
      Claimed claimed;
      claimed.event.created_at = created_at;
      claimed.event.id = row.id;
      claimed.event.aggregate_type = chunk->arena.Copy(row.type);
      claimed.event.event_type = chunk->arena.Copy("created");
      claimed.event.payload = chunk->arena.Copy(row.payload);
      if (!row.key.empty()) {
        claimed.event.aggregate_id = chunk->arena.Copy(row.key);
      }
      if (!row.topic.empty()) {
        claimed.event.topic = chunk->arena.Copy(row.topic);
      }
      claimed.order_key = row.order_key;
      claimed.state = row.state;
      claimed.attempts = row.attempts;
      chunk->events.push_back(claimed);
    }
    chunk->durable_lsn = table_->server()->lsn;
    *next_due = table_->NextDue();
    return Status();
  }

  Status Settle(std::span<const Settlement> outcomes, std::vector<uint64_t>* freed, int64_t* next_due) override {
    if (Fails("Settle")) {
      return Trouble();
    }
    if (!table_->server()->owned) {
      return Status().OfOwner(false);
    }
    std::set<uint64_t> touched;
    for (const Settlement& outcome : outcomes) {
      const int64_t created_at = outcome.claimed->event.created_at;
      auto found = table_->rows.find(created_at);
      if (claimed_.erase(created_at) == 0 || found == table_->rows.end() || found->second.sender != incarnation_) {
        table_->Wrong("an event was settled that was not claimed");
        continue;
      }
      ParkedRow& row = found->second;
      row.sender = 0;
      CheckCharge(outcome, row);
      touched.insert(row.order_key);
      switch (outcome.outcome) {
        case ParkedOutcome::kDelivered:
          table_->delivered[created_at] = outcome.place;
          table_->rows.erase(found);
          break;
        case ParkedOutcome::kRetry:
          row.state = ParkedState::kRetrying;
          row.attempts = outcome.attempts;
          row.due = outcome.due;
          row.error = outcome.error;
          BlockBehind(row);
          break;
        case ParkedOutcome::kDead:
          row.state = ParkedState::kDead;
          row.attempts = outcome.attempts;
          row.error = outcome.error;
          table_->ever_dead.insert(created_at);
          if (table_->blocks()) {
            BlockBehind(row);
          }
          break;
        case ParkedOutcome::kGiveBack:
          row.due = outcome.due != 0 ? outcome.due : row.due;
          row.error = outcome.error.ok() ? row.error : outcome.error;
      }
    }
    for (uint64_t key : touched) {
      table_->Promote(key);
      if (key != 0 && !table_->Holds(key)) {
        freed->push_back(key);
      }
    }
    *next_due = table_->NextDue();
    return Status();
  }

 private:
  bool Fails(const char* function) {
    ++table_->calls[function];
    Server* server = table_->server();
    if (server->on_call) {
      server->on_call(function);
    }
    return server->fails && server->fails(function);
  }
  static Status Trouble() { return Status(ErrorClass::kInternal, "57014", "the parked table is in trouble"); }
  bool Due(const ParkedRow& row, const ClaimLimits& limits) const {
    return (row.state == ParkedState::kRetrying || row.state == ParkedState::kScheduled) && row.sender == 0 &&
           row.due <= limits.now && !table_->paused.contains(row.key) &&
           std::find(limits.without.begin(), limits.without.end(), row.resolved) == limits.without.end();
  }
  bool ScheduledMayGo(const ParkedRow& row) const {
    if (row.order_key == 0) {
      return true;
    }
    return std::none_of(table_->rows.begin(), table_->rows.end(), [&](const auto& entry) {
      const ParkedRow& other = entry.second;
      return other.order_key == row.order_key && other.created_at != row.created_at &&
             (ParkedTable::Waits(other) || (other.state == ParkedState::kDead && table_->blocks()) ||
              (other.state == ParkedState::kScheduled &&
               std::pair(other.due, other.created_at) < std::pair(row.due, row.created_at)));
    });
  }
  void BlockBehind(const ParkedRow& head) {
    for (auto& [created_at, row] : table_->rows) {
      if (head.order_key != 0 && row.order_key == head.order_key && created_at > head.created_at &&
          row.state == ParkedState::kRetrying) {
        row.state = ParkedState::kBlocked;
      }
    }
  }
  static bool Chargeable(const Error& error) {
    return error.error_class == ErrorClass::kMessage || error.error_class == ErrorClass::kSolo;
  }
  // It waits for what is not its fault: its topic, beyond the cap of side lanes, or a sink that is killed from outside.
  static bool WaitsUncharged(const Parking& parking) {
    return parking.state == ParkedState::kRetrying && parking.attempts == 0 &&
           (parking.error.error_class == ErrorClass::kTopic || parking.error.code == "SINK_KILLED");
  }
  void CheckParking(const Parking& parking) {
    if (WaitsUncharged(parking)) {
      return;
    }
    const bool failed = parking.state == ParkedState::kDead || parking.state == ParkedState::kRetrying;
    if (failed && (!Chargeable(parking.error) || parking.attempts != 1)) {
      table_->Wrong("parked as refused, but for no fault of its own");
    }
    if (!failed && (!parking.error.ok() || parking.attempts != 0)) {
      table_->Wrong("charged, but never refused");
    }
    table_->charged += failed ? 1 : 0;
  }
  void CheckCharge(const Settlement& outcome, const ParkedRow& row) {
    const bool charges = (outcome.outcome == ParkedOutcome::kRetry && outcome.error.code != "SINK_KILLED") ||
                         outcome.outcome == ParkedOutcome::kDead;
    if (outcome.attempts != row.attempts + (charges ? 1 : 0)) {
      table_->Wrong("attempts are counted wrong");
    }
    if (charges && !Chargeable(outcome.error)) {
      table_->Wrong("charged for no fault of its own");
    }
    if (outcome.outcome == ParkedOutcome::kRetry && outcome.due <= FakeClock::kWallAtZero) {
      table_->Wrong("retried without a back-off");
    }
    table_->charged += charges ? 1 : 0;
  }

  ParkedTable* table_;
  const uint64_t incarnation_;
  std::set<int64_t> claimed_;
};

}  // namespace outbox::relay::fakes
