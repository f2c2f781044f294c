// The acknowledging part of one lane [-]: moves the delivered prefix, and saves it as the lane's progress.
//
// Progress is saved together with that of the other lanes (saver.h): at most every EngineOptions::save_micros while
// events are delivered, every save_moved_micros where the position moved past rows of the log that were not this
// lane's, and not at all where it moved past nothing: transactions that emit nothing, the lanes' own among them, finish
// all the time. A save that fails has a back-off of its own and holds up nothing: what is committed is delivered also
// while its progress cannot be noted (a full disk), and the lane's next owner repeats it.
//
// Single-threaded. Owned by the lane, as are the pipeline and the log, which outlive it.
#pragma once

#include <cstdint>
#include <string>

#include "relay/common/call_retry.h"
#include "relay/common/turn.h"
#include "relay/destination/destination.h"
#include "relay/lane/pipeline.h"
#include "sink/places.h"

namespace outbox::relay {

class Acker {
 public:
  static constexpr size_t kMostTogether = 256;

  Acker(Pipeline* pipeline, LaneLog* log, Destination* destination, const EngineOptions& options);
  Acker(const Acker&) = delete;
  Acker& operator=(const Acker&) = delete;

  // The position was loaded. `halfway`: in a window.
  void Start(const TurnContext& turn, bool halfway) {
    last_save_ = turn.now;
    halfway_ = halfway;
  }

  // --- the prefix ---
  // Events were delivered, refused or parked.
  void OnResolved() { resolved_ = true; }
  // Returns true if some were since the last Advance().
  bool behind() const { return resolved_; }
  // Moves the prefix over what is done, and gives the bytes of that back to the destination's budget.
  void Advance();

  // --- delivered positions ---
  // Where delivered events are at the destination; saved with the progress.
  void AddPlace(const sink::Place& place) { places_.Add(0, place.topic, place.partition, place.first, place.last); }
  // The incarnation of the destination's server, or the cluster, that they are at; "": unknown.
  const std::string& server_run() const { return server_run_; }
  void SetServerRun(const std::string& server_run);

  // --- saving ---
  // Rows of the log were read, whether this lane wants them or not.
  void NoteRows(bool any) { saw_rows_ |= any; }
  // Whether everything this lane has moved past is saved.
  bool AllSaved() const { return unsaved_ == Unsaved::kNothing || put_back_; }
  // Anything to save that a destination has acknowledged.
  bool Acknowledged() const { return unsaved_ == Unsaved::kEvents || !places_.empty(); }
  // Monotonic microseconds; kNever. `stopped`: the log lets the lane read no further, so its position is awaited.
  int64_t SaveDue(const TurnContext& turn, bool stopped) const;
  bool Ready(const TurnContext& turn) const { return retry_.Ready(turn.now); }
  void NotDue(const TurnContext& turn) { retry_.EndStep(turn); }
  // What is to be saved now, and what came of that, together with the progress of `count` - 1 other lanes.
  ProgressSave BeginSave();
  CallResult EndSave(const Status& status, const ProgressSave& save, size_t count, const TurnContext& turn);
  // With how many others it may be saved at once, itself included. After a failure fewer and fewer: so that a lane
  // whose rows are locked does not keep the others for long.
  size_t most_together() const { return most_together_; }
  // Saves the progress of this lane alone.
  CallResult Save(const TurnContext& turn);
  const CallRetry& retry() const { return retry_; }
  // The log has another position for this lane by now: nothing is saved over it.
  void NotePutBack() { put_back_ = true; }

 private:
  enum class Unsaved : uint8_t {
    kNothing,
    kPosition,  // the position moved, past no event of this lane
    kEvents,    // events were delivered or parked
  };

  void FollowCluster();

  Pipeline* const pipeline_;
  LaneLog* const log_;
  Destination* const destination_;
  bool resolved_ = false;
  Unsaved unsaved_ = Unsaved::kNothing;
  bool saw_rows_ = false;  // since the last save
  bool put_back_ = false;
  // What is saved is in a window, of all that was visible then maybe (a seek, a route from a moment on): whoever counts
  // what is before the lane looks at all of it, so the window's end is saved soon.
  bool halfway_ = false;
  CallRetry retry_;
  int64_t last_save_ = 0;
  size_t most_together_ = kMostTogether;
  sink::Places places_;  // of what was delivered since the last save, also beyond a gap
  std::string server_run_;
};

}  // namespace outbox::relay
