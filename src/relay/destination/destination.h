// One destination of the engine [-]: its sink, the numbering of its records, and the byte budget that its lanes share.
//
// The budget counts events that were read and are not yet done. A lane may hold up to an equal share of it; the chunks
// it reads are a quarter of that, so that reading, sending and acknowledging overlap. A lane that holds nothing may
// always read one chunk: an event larger than the whole budget gets through, and a lane in trouble that holds all of it
// (its topic is missing, say) stops no other. All lanes together exceed the budget by their chunks at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/monotonic.h"
#include "relay/common/engine_clock.h"
#include "relay/common/engine_types.h"
#include "relay/common/past_ends.h"
#include "relay/destination/breaker.h"
#include "relay/destination/poison_search.h"
#include "relay/destination/retry_sink.h"
#include "relay/destination/server_check.h"
#include "relay/destination/sink_watch.h"
#include "relay/destination/submissions.h"
#include "relay/destination/turn_spacing.h"
#include "sink/sink.h"

namespace outbox::relay {

class Destination {
 public:
  Destination(uint32_t id, SinkFactory factory, std::unique_ptr<ServerRuns> servers, int64_t gather_micros,
              PastEnds past, const EngineOptions& options)
      : id_(id),
        spacing_(gather_micros),
        factory_(std::move(factory)),
        sink_(factory_()),
        server_check_(std::move(servers)),
        past_(std::move(past)),
        breaker_(options.backoff_base_micros, options.backoff_cap_micros) {}
  Destination(const Destination&) = delete;
  Destination& operator=(const Destination&) = delete;

  uint32_t id() const { return id_; }
  sink::Sink* sink() { return sink_.get(); }
  const sink::Health& health() const { return sink_->health(); }
  // Why its sink takes nothing, as far as that is known; nullptr: it does. A run of its server that waits to be
  // admitted has been reached: what keeps it waiting is newer than what the sink met before.
  const Error* down() const {
    const Error& check = server_check_.trouble();
    return !check.ok() ? &check : health().up ? nullptr : &health().error;
  }
  Breaker& breaker() { return breaker_; }
  const Breaker& breaker() const { return breaker_; }
  const SinkFactory& factory() const { return factory_; }
  RetrySink& retry() { return retry_; }
  const RetrySink& retry() const { return retry_; }
  PoisonTurns& turns() { return turns_; }
  ServerCheck& server_check() { return server_check_; }
  const ServerCheck& server_check() const { return server_check_; }
  // The sink waits to be admitted to another run of its server than the last one: lanes are being checked for it.
  bool MeetsAnother() const {
    return sink_->awaits_admission() && sink_->identity()->server_run != server_check_.server_run();
  }
  // Shows a warning for an hour. One for a person, who has to do something about it, is hidden by no other.
  void Warn(Error warning, int64_t now, bool for_a_person = false) {
    if (warns_a_person_ && !for_a_person && now < warn_until_) {
      return;
    }
    warns_a_person_ = for_a_person;
    warning_ = std::move(warning);
    warn_until_ = now + kWarnMicros;
  }
  const Error* warning(int64_t now) const {
    if (!warning_.ok() && now < warn_until_) {
      return &warning_;
    }
    const Error* of_sink = sink_warning();
    return of_sink != nullptr ? of_sink : retry_.warning().Now(now);
  }
  // What its sinks warn of themselves; nullptr: nothing. The second one goes with its warning a minute after it was
  // last used: it could not find out sooner that a quota throttles it no more.
  const Error* sink_warning() const {
    const sink::Health* second = retry_.health();
    return !health().warning.ok()                       ? &health().warning
           : second != nullptr && !second->warning.ok() ? &second->warning
                                                        : nullptr;
  }

  // --- sending ---
  // A new sink waits for the old one's records: nothing is submitted meanwhile.
  bool accepting() const { return next_sink_ == nullptr; }
  Submissions& submissions() { return submissions_; }
  // The records get seqs from next_seq() on.
  void Submit(uint32_t flow, uint32_t epoch, uint32_t count, std::string records, int64_t now) {
    spacing_.OnSubmitted(count);
    sink_->Submit(submissions_.Take(flow, epoch, count, std::move(records), now));
  }
  TurnSpacing& spacing() { return spacing_; }
  // See SinkWatch.
  bool TakeRecovered() { return watch_.TakeRecovered(health(), /*held=*/!server_check_.trouble().ok()); }
  SinkDeath TakeDeath() {
    const SinkDeath death = watch_.TakeDeath(health());
    if (death != SinkDeath::kNone) {
      past_.Renew(/*second=*/false);
    }
    return death;
  }
  uint64_t deaths() const { return watch_.total_deaths(); }
  SinkDeath TakeSecondDeath() {
    const SinkDeath death = retry_.TakeDeath();
    if (death != SinkDeath::kNone) {
      past_.Renew(/*second=*/true);
    }
    return death;
  }
  void CloseSecond() {
    retry_.Close();
    past_.Renew(/*second=*/true);
  }

  // A sink, which is there, has delivered at that place what was submitted at `submitted` or later: whether that shows
  // that something is lost.
  void CheckPlace(bool second, const sink::Place& place, int64_t submitted, int64_t now, int64_t wall) {
    const sink::Health& health = second ? *retry_.health() : sink_->health();
    if (Error lost = past_.OnPlace({second, submitted, health.cluster}, place, now, wall); !lost.ok()) {
      Warn(std::move(lost), now, true);
    }
  }
  // What the second sink itself has found lost is told for an hour, too, though it is closed before.
  void KeepLost(int64_t now) {
    if (const Error* lost = retry_.TakeLost(); lost != nullptr) {
      Warn(*lost, now, true);
    }
  }

  // --- a sink that forgets records ---
  uint64_t renewals() const { return renewals_; }
  void CountRenewal(Error why, int64_t now) {
    ++renewals_;
    Warn(std::move(why), now);
  }

  // --- a new sink ---
  void Replace(SinkFactory factory, std::unique_ptr<ServerRuns> servers, int64_t drain_deadline) {
    factory_ = std::move(factory);
    server_check_.SetLog(std::move(servers));
    warning_ = {};
    warns_a_person_ = false;
    retry_.warning().Forget();
    next_sink_ = factory_();
    retry_.Retire(drain_deadline);
    drain_deadline_ = drain_deadline;
  }
  bool replacing() const { return next_sink_ != nullptr; }
  int64_t drain_deadline() const { return drain_deadline_; }
  // Changes to the new sink, or to another of the same configuration where none waits.
  void Swap() {
    sink_->Close();
    sink_ = next_sink_ != nullptr ? std::move(next_sink_) : factory_();
    server_check_.Reset();
    submissions_.Forget();
    past_.Renew(/*second=*/false);
    watch_.Begin(health());
  }

  // --- budget ---
  static constexpr size_t kSmallestChunk = 16 * 1024;
  void SetBudget(size_t max, size_t largest_chunk, size_t active_lanes) {
    max_ = max;
    share_ = max / (active_lanes == 0 ? 1 : active_lanes);
    chunk_ = share_ / 4 < largest_chunk ? share_ / 4 : largest_chunk;
    if (chunk_ < kSmallestChunk) {
      chunk_ = kSmallestChunk;
    }
  }
  size_t chunk_bytes() const { return chunk_; }
  bool MayRead(size_t lane_bytes) const {
    return lane_bytes == 0 || (used_ + chunk_ <= max_ && lane_bytes + chunk_ <= share_);
  }
  void Charge(size_t bytes) { used_ += bytes; }
  void Refund(size_t bytes) { used_ -= bytes; }
  size_t used() const { return used_; }

  bool was_closed = true;  // the breaker, in the last turn
  uint64_t explained = 0;  // changes of the sink's health that the breaker's reason knows of
  bool removing = false;   // its lanes are being released; closes when the last has gone

 private:
  static constexpr int64_t kWarnMicros = 3600 * kSecond;

  const uint32_t id_;
  TurnSpacing spacing_;
  SinkFactory factory_;
  std::unique_ptr<sink::Sink> sink_;
  std::unique_ptr<sink::Sink> next_sink_;
  RetrySink retry_;
  ServerCheck server_check_;
  PastEnds past_;
  Error warning_;
  int64_t warn_until_ = 0;
  bool warns_a_person_ = false;
  int64_t drain_deadline_ = 0;
  Breaker breaker_;
  PoisonTurns turns_;
  Submissions submissions_;
  SinkWatch watch_;
  uint64_t renewals_ = 0;
  size_t max_ = 0;
  size_t share_ = 0;
  size_t chunk_ = kSmallestChunk;
  size_t used_ = 0;
};

}  // namespace outbox::relay
