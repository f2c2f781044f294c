#include "log/window/shared_window.h"

#include <algorithm>

namespace outbox::log {

// --- now ---------------------------------------------------------------------------------------------------------

void SharedWindows::BeginTurn() {
  ++turn_;
  now_.reset();
  nothing_since_.clear();
}

void SharedWindows::ChooseEnd(const Snapshot& base, Snapshot* now, uint64_t* durable_lsn) {
  if (now_ && now_->Covers(base)) {
    *now = *now_;
    *durable_lsn = durable_lsn_;
    return;
  }
  nothing_since_.clear();
  now_ = *now;
  durable_lsn_ = *durable_lsn;
}

bool SharedWindows::NothingSince(const Snapshot& base) const {
  return std::find(nothing_since_.begin(), nothing_since_.end(), base) != nothing_since_.end();
}

void SharedWindows::NoteNothingSince(const Snapshot& base) {
  if (nothing_since_.size() < kMostNothing) {
    nothing_since_.push_back(base);
  }
}

// --- who reads along ---------------------------------------------------------------------------------------------

namespace {

bool Near(const Snapshot& a, const Snapshot& b) {
  // Numbers below all transaction ids are those of adopted rows: few of them may be very many rows.
  return a.xmax > SharedLane::kAdoptedEnd && b.xmax > SharedLane::kAdoptedEnd &&
         (a.xmax > b.xmax ? a.xmax - b.xmax : b.xmax - a.xmax) <= SharedLane::kNear;
}

}  // namespace

SharedWindows::Gathered SharedWindows::Gather(SharedLane* opener, const Position& at, const Snapshot& to) {
  Gathered gathered{at.base, at.target ? at.done_to : kBeforeAllTime, {}};
  if (opener->alone_ || lanes_.size() < 2) {
    return gathered;
  }
  MakeRoom();
  if (budget_.held > most_held_) {
    return gathered;
  }
  for (SharedLane* lane : lanes_) {
    if (lane == opener) {
      continue;
    }
    lane->ForgetOutdated();
    if (!lane->ReadsAlong()) {
      continue;
    }
    const Snapshot& base = lane->end_base();
    if (lane->resumes() || at.target) {
      if (lane->resumes() && lane->standing_->target == at.target && base == at.base) {
        gathered.after = std::min(gathered.after, lane->standing_->done_to);
        gathered.with.push_back(lane);
      }
    } else if (base == at.base) {
      gathered.with.push_back(lane);
    } else if (lane->ahead_.empty() && Near(base, at.base) && !(base == to) && to.Covers(base) &&
               (at.base.Covers(base) || base.Covers(at.base))) {
      if (gathered.from.Covers(base)) {
        gathered.from = base;
      }
      gathered.with.push_back(lane);
    }
  }
  return gathered;
}

std::shared_ptr<LaneTake> SharedWindows::Join(const std::shared_ptr<WindowReading>& reading, SharedLane* opener,
                                              const std::vector<SharedLane*>& with) {
  const size_t sorting = std::max(kLeastSorting, most_held_ / 2 / (with.size() + 1));
  reading->takes.reserve(with.size() + 1);
  std::shared_ptr<LaneTake> own = opener->Extend(reading, std::min(opener->memory_ / 2, sorting));
  own->opener = true;
  for (SharedLane* lane : with) {
    std::shared_ptr<LaneTake> take = lane->Extend(reading, std::min(lane->memory_ / 2, sorting));
    if (lane->EndsWithNothing()) {
      lane->ahead_.pop_back();
    }
    if (!lane->ahead_.empty()) {
      take->rows.StandBehind();
    }
    lane->ahead_.push_back(std::move(take));
  }
  return own;
}

// Lanes with more than one window ahead are slow, or read nothing for now. What was read last goes first, for all of
// them: then the next window begins at the same place for all.
void SharedWindows::MakeRoom() {
  while (budget_.held > most_held_ / 2) {
    const WindowReading* last = nullptr;
    for (const SharedLane* lane : lanes_) {
      if (lane->ahead_.size() > 1) {
        const WindowReading* reading = lane->ahead_.back()->reading.get();
        last = last == nullptr || reading->to.xmax > last->to.xmax ? reading : last;
      }
    }
    if (last == nullptr) {
      return;
    }
    for (SharedLane* lane : lanes_) {
      if (lane->ahead_.size() > 1 && lane->ahead_.back()->reading.get() == last) {
        lane->ahead_.pop_back();
      }
    }
  }
}

void SharedWindows::ForgetAhead() {
  for (SharedLane* lane : lanes_) {
    lane->ahead_.clear();
  }
}

void SharedWindows::Drop(SharedLane* lane) {
  lane->taking_->dropped = true;
  lane->taking_->rows.Free();
  lane->taking_ = nullptr;
}

void SharedWindows::Break(WindowReading* reading) {
  reading->broken = true;
  for (const std::weak_ptr<LaneTake>& weak : reading->takes) {
    if (const std::shared_ptr<LaneTake> take = weak.lock(); take != nullptr && !take->opened) {
      take->lane->alone_ = true;
    }
  }
  reading->takes.clear();
}

// --- whose a row is ----------------------------------------------------------------------------------------------

void SharedWindows::BeginSlice(const WindowReading& reading) {
  for (SharedLane* lane : lanes_) {
    lane->taking_ = nullptr;
  }
  for (const std::weak_ptr<LaneTake>& weak : reading.takes) {
    if (const std::shared_ptr<LaneTake> take = weak.lock(); take != nullptr && !take->dropped) {
      take->lane->taking_ = take.get();
    }
  }
}

const SharedWindows::Wanting* SharedWindows::WantedBy(std::string_view aggregate_type, std::string_view event_type) {
  if (last_types_ == nullptr || last_types_->first.first != aggregate_type || last_types_->first.second != event_type) {
    auto found = types_.find(Types(aggregate_type, event_type));
    if (found == types_.end()) {
      if (types_.size() >= kMostTypes) {
        ForgetTypes();
      }
      Wanting wanting;
      for (SharedLane* lane : lanes_) {
        const EventFilter::Share share = lane->filter_->share();
        if (share.lane >= share.lanes || !lane->filter_->WantsTypes(aggregate_type, event_type)) {
          continue;
        }
        auto group = std::find_if(wanting.groups.begin(), wanting.groups.end(),
                                  [&](const Wanting::Group& known) { return known.lanes == share.lanes; });
        if (group == wanting.groups.end()) {
          wanting.groups.push_back({share.lanes, std::vector<std::vector<SharedLane*>>(share.lanes)});
          group = std::prev(wanting.groups.end());
        }
        group->by_lane[share.lane].push_back(lane);
      }
      found = types_.emplace(std::pair(std::string(aggregate_type), std::string(event_type)), std::move(wanting)).first;
    }
    last_types_ = &*found;
  }
  return last_types_->second.groups.empty() ? nullptr : &last_types_->second;
}

void SharedWindows::ForgetTypes() {
  types_.clear();
  last_types_ = nullptr;
}

void SharedWindows::Add(SharedLane* lane) {
  lanes_.push_back(lane);
  ForgetTypes();
}

void SharedWindows::Remove(SharedLane* lane) {
  std::erase(lanes_, lane);
  ForgetTypes();
}

// --- one lane ----------------------------------------------------------------------------------------------------

SharedLane::SharedLane(SharedWindows* windows, const EventFilter* filter, size_t memory)
    : windows_(windows), filter_(filter), memory_(memory) {
  windows_->Add(this);
}

SharedLane::~SharedLane() {
  windows_->Remove(this);
}

void SharedLane::Stand(const Position& position) {
  if (!ahead_.empty() && !(ahead_.front()->from == position)) {
    ahead_.clear();
  }
  standing_ = position;
}

void SharedLane::StandNowhere() {
  ahead_.clear();
  standing_.reset();
}

std::shared_ptr<LaneTake> SharedLane::Extend(const std::shared_ptr<WindowReading>& reading, size_t sort_memory) {
  const LaneTake* nothing = EndsWithNothing() ? ahead_.back().get() : nullptr;
  Position from = nothing != nullptr ? nothing->from : ahead_.empty() ? *standing_ : Position{.base = end_base()};
  auto take = std::make_shared<LaneTake>(reading, std::move(from), filter_, memory_, sort_memory, &windows_->budget_);
  take->lane = this;
  take->saw_before = nothing != nullptr && nothing->saw_rows();
  reading->takes.push_back(take);
  return take;
}

void SharedLane::ForgetOutdated() {
  if (!ahead_.empty() && !ahead_.front()->current()) {
    ahead_.clear();
  }
}

bool SharedLane::Rests() const {
  if (!standing_ || alone_ || ahead_.size() > 1) {
    return false;
  }
  return ahead_.empty() ? !resumes() && windows_->NothingSince(standing_->base)
                        : EndsWithNothing() && windows_->IsNow(*ahead_.front()->reading);
}

std::shared_ptr<LaneTake> SharedLane::TakeAhead(const Position& position) {
  Stand(position);
  ForgetOutdated();
  if (ahead_.empty() ||
      (!alone_ && ahead_.size() == 1 && EndsWithNothing() && !windows_->IsNow(*ahead_.front()->reading))) {
    return nullptr;
  }
  std::shared_ptr<LaneTake> take = std::move(ahead_.front());
  ahead_.pop_front();
  standing_ = Position{.base = take->reading->to};
  take->opened = true;
  return take;
}

SharedLane::Ahead SharedLane::FoundAhead(int64_t wall) const {
  Ahead found;
  for (const std::shared_ptr<LaneTake>& take : ahead_) {
    if (!take->current() || !take->reading->collected) {
      break;
    }
    found.events.Add(take->rows.WaitingAt(wall, 0));
    found.to = &take->reading->to;
  }
  return found;
}

void SharedLane::NoteOpened(LaneTake* take) {
  Stand({.base = take->reading->to});
  take->opened = true;
  alone_ = false;
}

}  // namespace outbox::log
