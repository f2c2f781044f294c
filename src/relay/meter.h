// Counts what a lane does [-], into figures that are in shared memory. A lane has one, which its parts and its side
// lanes count with; without figures (in tests) nothing is counted. It never allocates, and costs a few atomic additions
// a batch and one look at each event delivered.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/commit_times.h"
#include "base/event.h"
#include "base/route_figures.h"
#include "base/status.h"
#include "relay/engine_clock.h"
#include "relay/parked_log.h"

namespace outbox::relay {

// Where a lane's figures are. Both outlive it; nullptr: nothing is counted, or commit times are not known.
struct MeterPlace {
  RouteFigures* figures = nullptr;
  const CommitTimes* commits = nullptr;
};

class Meter {
 public:
  Meter() = default;
  explicit Meter(const MeterPlace& place) : place_(place) {}
  const MeterPlace& place() const { return place_; }
  // What was emitted before, in Unix microseconds, has no latency: the lane was not there (LaneLog::there_since).
  void CountSince(int64_t there_since) { there_since_ = there_since; }

  void Submitted(uint64_t events) const { Add(&RouteFigures::attempts, events); }
  void OpenedWindow() const { Add(&RouteFigures::windows, 1); }
  void Parked(ParkedState state) const {
    if (place_.figures != nullptr) {
      Count(&place_.figures->parked[static_cast<size_t>(state)]);
    }
  }
  void Failed(ErrorClass error_class, uint64_t events) const {
    if (place_.figures != nullptr) {
      Count(&place_.figures->failed[static_cast<size_t>(error_class)], events);
      if (error_class != ErrorClass::kMessage) {
        Count(&place_.figures->retried, events);
      }
    }
  }
  // They are sent again, and have not arrived.
  void Unsent(uint64_t events) const { Add(&RouteFigures::retried, events); }
  // Their outcome will never be known.
  void Unknown(uint64_t events) const {
    Add(&RouteFigures::retried, events);
    Add(&RouteFigures::possible_duplicates, events);
  }

  // --- delivered ---
  // Call before a batch of Delivered(), with the time of the acknowledgement, and EndDelivered() after it.
  void BeginDelivered(int64_t now, Clock* clock) {
    now_ = now;
    clock_ = clock;
    wall_ahead_ = kNotRead;
    longest_ = longest_sent_ = 0;
    count_ = bytes_ = 0;
    last_xid_ = 0;
    last_commit_ = 0;
    if (place_.figures != nullptr) {
      place_.figures->delivery.Begin(now);
      place_.figures->acknowledgement.Begin(now);
    }
  }
  // Events of one submission; `sent_at`: when, by the same clock.
  void Delivered(const Event* events, uint32_t count, int64_t sent_at) {
    if (place_.figures == nullptr) {
      return;
    }
    NoteSent(sent_at, count);
    LatencyRun run(&place_.figures->delivery.all, now_);
    uint64_t bytes = 0;
    for (const Event* event = events; event < events + count; ++event) {
      bytes += event->payload.size();
      if (event->created_at >= there_since_) {
        run.Add(Since(*event));
      }
    }
    run.Flush();
    bytes_ += bytes;
    longest_ = std::max(longest_, run.longest());
  }
  // One that was parked. A replay says nothing about how long an event takes.
  void DeliveredParked(const Event& event, bool replay, int64_t sent_at) {
    if (place_.figures == nullptr) {
      return;
    }
    NoteSent(sent_at, 1);
    bytes_ += event.payload.size();
    if (!replay) {
      const int64_t latency = now_ - Since(event);
      place_.figures->delivery.Add(latency, 1);
      longest_ = std::max(longest_, latency);
    }
  }
  void EndDelivered() {
    if (place_.figures != nullptr && count_ > 0) {
      Count(&place_.figures->published, count_);
      Count(&place_.figures->published_bytes, bytes_);
      Count(&place_.figures->drain.delivered, count_);
      place_.figures->delivery.End(longest_, now_);
      place_.figures->acknowledgement.End(longest_sent_, now_);
    }
  }

 private:
  void Add(Counter RouteFigures::*counter, uint64_t events) const {
    if (place_.figures != nullptr && events > 0) {
      Count(&(place_.figures->*counter), events);
    }
  }
  void NoteSent(int64_t sent_at, uint32_t count) {
    place_.figures->acknowledgement.Add(now_ - sent_at, count);
    longest_sent_ = std::max(longest_sent_, now_ - sent_at);
    count_ += count;
  }
  // When the event's transaction committed, else when it was emitted; when it was due, if that is later.
  int64_t Since(const Event& event) {
    if (event.xid != last_xid_) {
      last_xid_ = event.xid;
      last_commit_ = place_.commits == nullptr ? 0 : place_.commits->Find(event.xid, now_);
    }
    if (last_commit_ != 0 && event.deliver_at == 0) {
      return last_commit_;
    }
    wall_ahead_ = wall_ahead_ == kNotRead ? clock_->WallMicros() - now_ : wall_ahead_;
    const int64_t since = last_commit_ != 0 ? last_commit_ : event.created_at - wall_ahead_;
    return event.deliver_at == 0 ? since : std::max(since, event.deliver_at - wall_ahead_);
  }

  MeterPlace place_;
  int64_t there_since_ = INT64_MIN;
  // About the batch that is being delivered.
  int64_t now_ = 0;
  Clock* clock_ = nullptr;
  static constexpr int64_t kNotRead = INT64_MIN;
  int64_t wall_ahead_ = kNotRead;  // of the monotonic clock
  int64_t longest_ = 0;
  int64_t longest_sent_ = 0;
  uint64_t count_ = 0;
  uint64_t bytes_ = 0;
  uint64_t last_xid_ = 0;
  int64_t last_commit_ = 0;
};

}  // namespace outbox::relay
