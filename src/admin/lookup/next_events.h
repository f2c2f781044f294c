// The events that the lanes of a route and their side lanes would send next [P], read by the relay workers' own reader:
// window by window, the lanes of the route together where they stand together. Windows end where a worker's may end, at
// the ticks that the keeper has recorded behind a lane that lags, and are short at first: what it costs goes by what is
// asked for, not by what waits.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "admin/lookup/route_lanes.h"
#include "base/event.h"
#include "log/window/shared_window.h"

namespace outbox::admin {

class NextEvents {
 public:
  // `lanes`: of one route, each with a spec; they outlive this. Up to `now`. Looks at `rows` of the log at most, about,
  // all lanes together.
  NextEvents(const std::vector<LaneRecord>& lanes, Snapshot now, size_t rows);
  ~NextEvents();
  NextEvents(const NextEvents&) = delete;
  NextEvents& operator=(const NextEvents&) = delete;

  // Hands the next `limit` events of a lane to `visit`, in the lane's order, and then as many of each of its side
  // lanes. Once for each lane, the first of `lanes` first. Throws PgError.
  void Read(const LaneRecord& lane, int64 limit, const std::function<void(const Event&)>& visit);
  // It stopped, having looked at that many: more may wait, also before the last event of a lane that was handed out.
  bool stopped() const { return stopped_; }

 private:
  struct Lane;

  bool OpenNext(Lane* lane);
  Snapshot EndOfNext(Lane* lane) const;
  void Collect(Lane* lane);
  void ReadOne(Lane* lane, int64 limit, const std::function<void(const Event&)>& visit);

  const Snapshot now_;
  size_t rows_;  // that may still be looked at
  bool stopped_ = false;
  log::SharedWindows windows_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace outbox::admin
