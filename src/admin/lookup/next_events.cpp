#include "admin/lookup/next_events.h"

#include <algorithm>
#include <utility>

#include "log/progress/ticks.h"
#include "log/window/lane_reader.h"
#include "log/window/settled.h"
#include "log/window/snapshots.h"
#include "pg/settings.h"

namespace outbox::admin {

namespace {

// Of a large window rows are fetched anew: a few at first.
constexpr size_t kFirstBytes = size_t{8} << 10;
constexpr size_t kMostBytes = size_t{1} << 20;

// What the lane will not send, though it reads it: see log/window/settled.h.
void LeaveSettled(int64 route_id, EventChunk* chunk) {
  std::vector<size_t> settled;
  pg::Guard([&] {
    if (OidIsValid(pg::FindOurRelation("latest_outcome"))) {  // else the extension is not updated yet
      WithSpiAsOwner(Plan::kByKey, [&] { log::ListSettled(route_id, *chunk, 0, &settled); });
    }
  });
  log::DropSettled(settled, 0, chunk);
}

}  // namespace

struct NextEvents::Lane {
  Lane(const LaneRecord& record, log::SharedWindows* windows, size_t memory)
      : route_id(record.route_id),
        position(record.position),
        place(windows, record.spec.get(), memory),
        reader(record.spec.get(), memory, windows) {
    place.Stand(position);
  }

  const int64 route_id;
  Position position;  // behind the window that is open
  log::TickCursor ticks{1};
  log::SharedLane place;
  log::LaneReader reader;
};

NextEvents::NextEvents(const std::vector<LaneRecord>& lanes, Snapshot now, size_t rows)
    : now_(std::move(now)), rows_(rows) {
  for (const LaneRecord& lane : lanes) {
    lanes_.push_back(std::make_unique<Lane>(lane, &windows_, static_cast<size_t>(pg::settings.sort_mem_kb) * 1024));
  }
}

NextEvents::~NextEvents() = default;

// The nearest tick, and further ones once windows have turned out to be small.
Snapshot NextEvents::EndOfNext(Lane* lane) const {
  Snapshot tick;
  bool found = false;
  if (lane->reader.open()) {
    lane->ticks.Learn(lane->reader.looked());
  }
  pg::Guard([&] { WithSpiAsOwner(Plan::kIndexOrder, [&] { found = lane->ticks.Next(lane->position.base, &tick); }); });
  return found && now_.Covers(tick) ? tick : now_;
}

bool NextEvents::OpenNext(Lane* lane) {
  Position& at = lane->position;
  if (std::shared_ptr<log::LaneTake> take = lane->place.TakeAhead(at); take != nullptr) {
    at = {.base = take->reading->to};
    lane->reader.Open(std::move(take));
    return true;
  }
  Snapshot to = at.target.value_or(now_);
  if (!at.target) {
    const uint64 finished = at.base.xmax > now_.xmax ? 0 : log::FinishedBetween(at.base, now_);
    stopped_ = stopped_ || (finished > 0 && rows_ == 0);
    if (finished == 0 || rows_ == 0) {
      return false;
    }
    to = finished == 1 ? now_ : EndOfNext(lane);
  }
  const log::SharedWindows::Gathered gathered = windows_.Gather(&lane->place, at, to);
  const auto pass = std::make_shared<log::WindowPass>(gathered.from, to, gathered.after);
  lane->reader.Open(windows_.Join(pass, &lane->place, gathered.with));
  lane->place.NoteOpened(lane->reader.take());
  at = {.base = to};
  return true;
}

void NextEvents::Collect(Lane* lane) {
  log::LaneReader& reader = lane->reader;
  while (!reader.collected()) {
    if (rows_ == 0) {
      stopped_ = true;
      reader.EndEarly();
      return;
    }
    const uint64 before = reader.looked();
    if (!pg::Guard([&] { return reader.Collect(rows_); })) {
      EventChunk none;
      reader.Undo(&none, 0);
    }
    const uint64 now = reader.looked();
    rows_ -= std::min<uint64>(rows_, now < before ? now : now - before);
  }
}

void NextEvents::Read(size_t number, int64 limit, const std::function<void(const Event&)>& visit) {
  Lane* lane = lanes_[number].get();
  for (int64 count = 0; count < limit && OpenNext(lane);) {
    Collect(lane);
    for (size_t bytes = kFirstBytes; count < limit && !lane->reader.at_end(); bytes = std::min(2 * bytes, kMostBytes)) {
      EventChunk chunk;
      if (!pg::Guard([&] { return lane->reader.Fetch(bytes, &chunk); })) {
        throw pg::UserError{ERRCODE_OBJECT_IN_USE, "the log was rewritten while it was read", "",
                            "Call the function again."};
      }
      lane->reader.Confirm(chunk);
      LeaveSettled(lane->route_id, &chunk);
      for (size_t i = 0; i < chunk.events.size() && count < limit; i++, count++) {
        visit(chunk.events[i]);
      }
    }
  }
  lane->reader.Close();
  lane->place.StandNowhere();
}

}  // namespace outbox::admin
