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
#include "relay/common/parked_log.h"

namespace outbox::relay {

static_assert(kParkedStates == static_cast<size_t>(ParkedState::kLast) + 1);

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
  // Call before a batch of Delivered(), with the time of the acknowledgement by both clocks, and EndDelivered() after
  // it.
  void BeginDelivered(int64_t now, int64_t wall) {
    now_ = now;
    wall_ahead_ = wall - now;
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
    // Copies, which stay in registers: this loop is most of what counting costs.
    const int64_t there_since = there_since_;
    const int64_t ahead = wall_ahead_;
    uint64_t bytes = 0;
    uint64_t xid = last_xid_;
    int64_t commit = last_commit_;
    for (const Event* event = events; event < events + count; ++event) {
      bytes += event->payload.size();
      if (event->created_at < there_since) [[unlikely]] {
        continue;
      }
      if (event->xid != xid) {
        xid = event->xid;
        commit = CommitOf(xid);
      }
      if (event->deliver_at == 0) [[likely]] {
        run.Add(commit != 0 ? commit : event->created_at - ahead);
      } else {
        run.Add(std::max(commit != 0 ? commit : event->created_at - ahead, event->deliver_at - ahead));
      }
    }
    last_xid_ = xid;
    last_commit_ = commit;
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
      const int64_t commit = CommitOf(event.xid);
      const int64_t began = commit != 0 ? commit : event.created_at - wall_ahead_;
      const int64_t latency = now_ - (event.deliver_at == 0 ? began : std::max(began, event.deliver_at - wall_ahead_));
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
  // When a transaction committed; 0: it is not known, and its events count from their emit(). A delayed one counts from
  // when it was due, if that is later.
  int64_t CommitOf(uint64_t xid) const { return place_.commits == nullptr ? 0 : place_.commits->Find(xid, now_); }

  MeterPlace place_;
  int64_t there_since_ = INT64_MIN;
  // About the batch that is being delivered.
  int64_t now_ = 0;
  int64_t wall_ahead_ = 0;  // of the monotonic clock
  int64_t longest_ = 0;
  int64_t longest_sent_ = 0;
  uint64_t count_ = 0;
  uint64_t bytes_ = 0;
  uint64_t last_xid_ = 0;
  int64_t last_commit_ = 0;
};

}  // namespace outbox::relay
