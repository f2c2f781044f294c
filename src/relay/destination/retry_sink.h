// The sink that parked events of one destination go to [-]: a second one of the same configuration, so that a refusal
// among them (after which Kafka's producer is recreated) never disturbs the lanes. Made when it is first wanted, closed
// after a minute without use, or when what it was given has had no outcome for half a minute in which nothing moved
// either: what is large, and its link slow, has the time that it takes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "relay/common/engine_types.h"
#include "relay/destination/poison_search.h"
#include "relay/destination/retry_warning.h"
#include "relay/destination/sink_watch.h"
#include "relay/destination/submissions.h"
#include "sink/sink.h"

namespace outbox::relay {

class RetrySink {
 public:
  // Null while there is none.
  sink::Sink* sink() { return sink_.get(); }
  bool there() const { return sink_ != nullptr; }
  // Whether records may be submitted: not while an old sink waits for its last records.
  bool accepting() const { return !retiring_; }
  Submissions& submissions() { return submissions_; }
  uint64_t under_way() const { return under_way_; }  // records without an outcome
  const sink::Health* health() const { return sink_ == nullptr ? nullptr : &sink_->health(); }

  // Why it takes nothing, or took nothing when it was closed; ok: it does, or nobody knows.
  Error trouble() const { return sink_ == nullptr ? closed_in_ : sink_->health().up ? Error() : sink_->health().error; }
  RetryWarning& warning() { return warning_; }
  const RetryWarning& warning() const { return warning_; }
  // Call before it is closed, where the lanes' sink works.
  void WarnOfSilence(int64_t now) {
    if (under_way_ > 0) {
      warning_.OnSilence(trouble(), SilentAt() - RetryWarning::kPatienceMicros, now);
    }
  }

  void Ensure(const SinkFactory& factory) {
    if (sink_ == nullptr) {
      sink_ = factory();
      watch_.Begin(sink_->health());
    }
  }
  // After Ensure. The records get seqs from next_seq() on.
  void Submit(uint32_t flow, uint32_t epoch, uint32_t count, std::string records, int64_t now) {
    under_way_ += count;
    used_at_ = now;
    sink_->Submit(submissions_.Take(flow, epoch, count, std::move(records), now));
  }
  // Each turn, before close_at(): while its bytes move, its records are not forgotten.
  void Look(int64_t now) {
    const bool sending = sink_ != nullptr && sink_->health().sending;
    heard_at_ = sending || sending_ ? now : heard_at_;
    sending_ = sending;
  }
  // Outcomes came, of so many records.
  void Heard(uint64_t count, int64_t now) {
    heard_at_ = now;
    under_way_ -= count < under_way_ ? count : under_way_;
  }

  // The run of the server that has acknowledged what came until now; "": it was admitted to none, or does not tell.
  const std::string& server_run() const { return server_run_; }
  // `drop`: what waits is aborted first; only where it comes to another run.
  void Admit(const std::string& server_run, bool drop) {
    sink_->Admit(server_run, drop && server_run != server_run_);
    server_run_ = server_run;
  }

  // Whether the two sinks of a destination that have come to different runs may be asked once more, which costs the one
  // that stayed a connection.
  bool MayAskAgain(int64_t now) {
    const bool may = now >= ask_again_at_;
    ask_again_at_ = may ? now + kAskAgainMicros : ask_again_at_;
    return may;
  }

  // While there is one; see SinkWatch.
  bool TakeRecovered() { return watch_.TakeRecovered(sink_->health()); }
  SinkDeath TakeDeath() { return watch_.TakeDeath(sink_->health()); }
  const Error* TakeLost() { return watch_.TakeLost(sink_->health()); }
  // Turns of those that send here: parked events of all lanes of the destination, and side lanes that try their topic.
  PoisonTurns& turns() { return turns_; }
  const PoisonTurns& turns() const { return turns_; }

  // The configuration has changed: the next sink is another one.
  void Retire(int64_t deadline) {
    retiring_ = sink_ != nullptr;
    deadline_ = deadline;
  }
  // When it may want to be closed; kNever.
  int64_t close_at() const {
    if (sink_ == nullptr) {
      return kNever;
    }
    return retiring_ ? deadline_ : under_way_ == 0 ? used_at_ + kIdleMicros : sending_ ? kNever : SilentAt();
  }
  // Returns true if it must go now.
  bool Expired(int64_t now) const {
    if (sink_ == nullptr) {
      return false;
    }
    if (retiring_) {
      return under_way_ == 0 || !sink_->health().up || now >= deadline_;
    }
    return now >= close_at();
  }
  // What is unresolved has no outcome.
  void Close() {
    if (sink_ != nullptr) {
      closed_in_ = trouble();
      sink_->Close();
      sink_.reset();
    }
    server_run_.clear();
    submissions_.Forget();
    under_way_ = 0;
    sending_ = false;
    turns_.End(turns_.holder(), false, used_at_);
    retiring_ = false;
  }

 private:
  static constexpr int64_t kIdleMicros = 60'000'000;
  static constexpr int64_t kAskAgainMicros = 1'000'000;
  // Parked events are not left with it for longer: operators want to act on them.
  int64_t SilentAt() const { return (used_at_ > heard_at_ ? used_at_ : heard_at_) + RetryWarning::kPatienceMicros; }

  std::unique_ptr<sink::Sink> sink_;
  std::string server_run_;
  Submissions submissions_;
  uint64_t under_way_ = 0;  // records without an outcome
  PoisonTurns turns_;
  int64_t used_at_ = 0;
  int64_t heard_at_ = 0;
  int64_t deadline_ = 0;
  int64_t ask_again_at_ = 0;
  bool retiring_ = false;
  bool sending_ = false;  // as it was when Look() was called
  Error closed_in_;
  RetryWarning warning_;
  SinkWatch watch_;
};

}  // namespace outbox::relay
