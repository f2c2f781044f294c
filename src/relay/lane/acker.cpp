#include "relay/lane/acker.h"

#include <algorithm>

namespace outbox::relay {

namespace {

constexpr int64_t kLongestPause = 5'000'000;

}  // namespace

Acker::Acker(Pipeline* pipeline, LaneLog* log, Destination* destination, const EngineOptions& options)
    : pipeline_(pipeline),
      log_(log),
      destination_(destination),
      retry_(options.backoff_base_micros, std::min(options.backoff_cap_micros, kLongestPause)) {}

void Acker::Advance() {
  resolved_ = false;
  const uint64_t before = pipeline_->prefix();
  if (pipeline_->Advance()) {
    unsaved_ = std::max(unsaved_, pipeline_->prefix() != before ? Unsaved::kEvents : Unsaved::kPosition);
  }
  destination_->Refund(pipeline_->TakeFreed());
}

void Acker::SetServerRun(const std::string& server_run) {
  server_run_ = server_run;
  log_->SetServerRun(server_run);
}

int64_t Acker::SaveDue(const TurnContext& turn, bool stopped) const {
  if (unsaved_ == Unsaved::kEvents || (unsaved_ == Unsaved::kPosition && (stopped || halfway_))) {
    return std::max(turn.saved_at + turn.options->save_micros, retry_.next_try());
  }
  return unsaved_ == Unsaved::kPosition && saw_rows_
             ? std::max(last_save_ + turn.options->save_moved_micros, retry_.next_try())
             : kNever;
}

// A server that tells its runs was checked before anything was written to it; of another is known which cluster it is
// as soon as it has acknowledged anything. Where that changes, what was acknowledged until then is the former one's.
void Acker::FollowCluster() {
  const std::string& cluster = destination_->health().cluster;
  if (!cluster.empty() && destination_->server_check().server_run().empty() && cluster != server_run_) {
    SetServerRun(cluster);
  }
}

ProgressSave Acker::BeginSave() {
  if (server_run_.empty()) {
    FollowCluster();
  }
  ProgressSave save;
  save.log = log_;
  save.position = pipeline_->position();
  save.durable = Acknowledged();
  places_.Take(&save.places);
  return save;
}

CallResult Acker::EndSave(const Status& status, const ProgressSave& save, size_t count, const TurnContext& turn) {
  if (!status.ok() || pipeline_->has_done_ahead()) {
    for (const sink::Place& place : save.places) {
      places_.Add(place);
    }
  }
  most_together_ = status.ok() ? kMostTogether : std::max<size_t>(count / 8, 1);
  const CallResult result = retry_.Result(Status(status).OfOwner(save.owner), turn);
  if (result == CallResult::kDone) {
    unsaved_ = Unsaved::kNothing;
    saw_rows_ = pipeline_->reading();
    halfway_ = save.position.target.has_value();
    last_save_ = turn.now;
    FollowCluster();
  }
  return result;
}

CallResult Acker::Save(const TurnContext& turn) {
  ProgressSave save = BeginSave();
  const Status status = log_->SaveProgress({&save, 1});
  return EndSave(status, save, 1, turn);
}

}  // namespace outbox::relay
