// The producers of a sink, one after the other [-]: start, end, start again.
//
//           End()                 Ended(), Retire()                 Start()
//   running ------> ending/purging ----------------> stopped --------------------> running
//      |                                                ^
//      +---------> leaving, when cut off ---------------+
//
// Beside the main producer there may be a careful one, which a refused record does not end (care.h). What ends one ends
// both. All calls come from the sink's thread; none blocks. Times are monotonic microseconds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "sink/kafka/client_settings.h"
#include "sink/kafka/producer.h"

namespace outbox::sink::kafka {

class Producers {
 public:
  // The settings outlive this. `event_fd` is an eventfd that is written when events come: the caller's.
  Producers(const Settings* settings, int event_fd, ProducerLife life)
      : settings_(*settings), files_(settings->files), event_fd_(event_fd), life_(std::move(life)) {}
  Producers(const Producers&) = delete;
  Producers& operator=(const Producers&) = delete;

  bool running() const { return phase_ == Phase::kRunning || phase_ == Phase::kLeaving; }
  // Records may go in.
  bool taking() const { return phase_ == Phase::kRunning; }
  bool closed() const { return phase_ == Phase::kClosed; }
  Producer* main() { return main_.get(); }        // nullptr between two
  Producer* careful() { return careful_.get(); }  // nullptr: there is none
  template <typename Fn>
  void ForEach(Fn&& fn) {
    for (Producer* each : {main_.get(), careful_.get()}) {
      if (each != nullptr) {
        fn(each);
      }
    }
  }

  // Makes the main producer. Where that fails, or (not an error) those that ended before are not destroyed yet, it is
  // not running() after and may be tried again at deadline().
  Status Start(int64_t now);
  // False: there is none to be had.
  bool MakeCareful();
  void EndCareful();

  bool leaving() const { return phase_ == Phase::kLeaving; }
  // Whether the main one is cut off from its cluster, or, unless that is to be endured, the careful one.
  bool CutOff(bool but_careful) const;
  // Nothing more goes in; what is in the library is waited for, however long that takes. Then come others, which get
  // their numbers from the cluster that is there by then.
  void Leave();
  // After a failed report, nothing more goes in; what is queued comes back, what is in flight is waited for.
  void End(int64_t now);
  // Whether the reports of all that is in the library have come, or are not waited for any longer. Goes on with it.
  bool Ended(uint32_t in_library, int64_t now);
  // Lets go of both. `bytes`: of records that the library may still look at.
  void Retire(const std::shared_ptr<std::vector<std::string>>& bytes, int64_t now);
  // Lets go of both, and no other begins.
  void Close(const std::shared_ptr<std::vector<std::string>>& bytes);

  // Files that the options name, of which the main producer was made.
  NamedFiles* files() { return &files_; }

  // Why the producer ends, where no event is charged for it: the first reason since the last delivery counts if
  // `first`.
  void EndedBy(Error error, bool first);
  // The error if several producers in a row have ended without a delivery and without an event to charge, else nullptr.
  const Error* Warning() const;
  void Delivered();
  // A broker has refused an event for what it is, or for its topic: many of them in a row are no reason to slow down.
  void Charged() { failures_ = 0; }

  // When Ended() or Start() is to be called though nothing came; -1: never.
  int64_t deadline() const {
    return taking() || closed() ? -1 : phase_ == Phase::kEnding ? std::min(deadline_, purge_at_) : deadline_;
  }
  bool MayStart(int64_t now) const { return phase_ == Phase::kStopped && now >= deadline_; }

 private:
  enum class Phase : uint8_t {
    kRunning,
    kLeaving,  // cut off; waiting for what is in the library
    kEnding,   // purged; waiting for what is in flight
    kPurging,  // that took too long: in flight is purged too
    kStopped,  // no producer; a new one is made at deadline_
    kClosed,
  };

  void Purge(int what);
  // What it returns expires when the producer is destroyed.
  std::weak_ptr<void> LetGo(std::unique_ptr<Producer> producer, const std::shared_ptr<std::vector<std::string>>& bytes);

  const Settings& settings_;
  NamedFiles files_;
  const int event_fd_;
  const ProducerLife life_;
  std::unique_ptr<Producer> main_;
  std::unique_ptr<Producer> careful_;  // ends with the other, or with the last topic that needs it
  Phase phase_ = Phase::kStopped;
  int64_t deadline_ = 0;                      // kEnding, kPurging: when to go on regardless; kStopped: when to start;
                                              // kRunning, kLeaving: before that it does not leave
  int64_t purge_at_ = 0;                      // kEnding: when to look again for what is queued
  std::vector<std::weak_ptr<void>> retired_;  // of the last producers, those that are not destroyed yet
  int64_t retired_by_ = 0;                    // or are not waited for any longer
  int failures_ = 0;                          // producers ended in a row without a delivery
  Error ended_by_;
};

}  // namespace outbox::sink::kafka
