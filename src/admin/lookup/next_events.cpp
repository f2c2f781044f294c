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
  // `number` of the side lane; -1: the lane itself.
  Lane(const LaneRecord& whose, int number, log::SharedWindows* windows, size_t memory)
      : record(whose),
        side(number),
        position(number < 0 ? whose.position : whose.sides[static_cast<size_t>(number)].position),
        place(windows, whose.spec.get(), memory),
        reader(whose.spec.get(), memory, windows) {
    place.Stand(position);
  }

  bool Sends(const Event& event) const {
    const EventFacts facts = {event.xid,          event.created_at, event.aggregate_type,
                              event.aggregate_id, event.event_type, event.topic};
    return record.SideOf(facts) == side && (side < 0 || !record.PassedBy(facts, side));
  }

  const LaneRecord& record;
  const int side;
  Position position;  // behind the window that is open
  log::TickCursor ticks{1};
  log::SharedLane place;
  log::LaneReader reader;
};

NextEvents::NextEvents(const std::vector<LaneRecord>& lanes, Snapshot now, size_t rows)
    : now_(std::move(now)), rows_(rows) {
  for (const LaneRecord& lane : lanes) {
    for (int side = -1; side < static_cast<int>(lane.sides.size()); side++) {
      lanes_.push_back(
          std::make_unique<Lane>(lane, side, &windows_, static_cast<size_t>(pg::settings.sort_mem_kb) * 1024));
    }
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

void NextEvents::Read(const LaneRecord& record, int64 limit, const std::function<void(const Event&)>& visit) {
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (&lane->record == &record) {
      ReadOne(lane.get(), limit, visit);
    }
  }
}

void NextEvents::ReadOne(Lane* lane, int64 limit, const std::function<void(const Event&)>& visit) {
  for (int64 count = 0; count < limit && OpenNext(lane);) {
    Collect(lane);
    for (size_t bytes = kFirstBytes; count < limit && !lane->reader.at_end(); bytes = std::min(2 * bytes, kMostBytes)) {
      EventChunk chunk;
      if (!pg::Guard([&] { return lane->reader.Fetch(bytes, &chunk); })) {
        throw pg::UserError{ERRCODE_OBJECT_IN_USE, "the log was rewritten while it was read", "",
                            "Call the function again."};
      }
      lane->reader.Confirm(chunk);
      LeaveSettled(lane->record.route_id, &chunk);
      for (size_t i = 0; i < chunk.events.size() && count < limit; i++) {
        if (lane->Sends(chunk.events[i])) {
          visit(chunk.events[i]);
          count++;
        }
      }
    }
  }
  lane->reader.Close();
  lane->place.StandNowhere();
}

}  // namespace outbox::admin
