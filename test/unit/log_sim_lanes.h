// A log without a server, and lanes that read windows of it together: what the tests of log/window/shared_window share.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "log/window/shared_window.h"
#include "relay/common/lane_filter.h"

namespace outbox::log {

// --- a log ---------------------------------------------------------------------------------------------------------

struct Row {
  uint64_t xid = 0;
  int64_t created_at = 0;
  Uuid id{};
  std::string aggregate_type;
  std::string aggregate_id;
  std::string event_type;
};

class World {
 public:
  uint64_t Begin() {
    running_.insert(next_);
    return next_++;
  }
  void Emit(uint64_t xid, const std::string& type, const std::string& key) {
    Row row;
    row.xid = xid;
    row.created_at = ++clock_;
    row.id[0] = static_cast<uint8_t>(clock_);
    row.id[1] = static_cast<uint8_t>(clock_ >> 8);
    row.aggregate_type = type;
    row.aggregate_id = key;
    row.event_type = "made";
    rows.push_back(row);
  }
  void End(uint64_t xid, bool commit) {
    running_.erase(xid);
    if (commit) {
      committed_.insert(xid);
    }
  }
  void Commit(const std::string& type, const std::string& key, int events = 1) {
    const uint64_t xid = Begin();
    for (int i = 0; i < events; ++i) {
      Emit(xid, type, key);
    }
    End(xid, true);
  }
  Snapshot Now() const {
    Snapshot now;
    now.xmax = next_;
    now.xip.assign(running_.begin(), running_.end());
    now.xmin = running_.empty() ? next_ : *running_.begin();
    return now;
  }
  bool In(const Row& row, const Snapshot& from, const Snapshot& to) const {
    return committed_.contains(row.xid) && !from.Visible(row.xid) && to.Visible(row.xid);
  }
  const std::set<uint64_t>& running() const { return running_; }

  std::vector<Row> rows;

 private:
  uint64_t next_ = 1000;
  int64_t clock_ = 0;
  std::set<uint64_t> running_;
  std::set<uint64_t> committed_;
};

// --- a lane --------------------------------------------------------------------------------------------------------

struct Pass final : WindowReading {
  using WindowReading::WindowReading;
  size_t looked = 0;
};

struct Figures {
  size_t passes = 0;  // begun
  size_t looked = 0;  // rows
};

// As PgLaneLog and LaneReader are: what they do with Postgres is done with a World.
class SimLane {
 public:
  SimLane(World* world, SharedWindows* windows, std::shared_ptr<relay::LaneFilter> filter, Position at,
          Figures* figures, size_t bytes = 100)
      : world_(world),
        windows_(windows),
        filter_(std::move(filter)),
        figures_(figures),
        bytes_(bytes),
        at_(std::move(at)),
        place_(std::make_unique<SharedLane>(windows, filter_.get(), size_t{1} << 20)) {
    place_->Stand(at_);
  }

  bool open() const { return take_ != nullptr; }
  const Snapshot& base() const { return at_.base; }
  bool resumes() const { return at_.target.has_value(); }
  const Snapshot& looks_from() const { return place_->LooksFrom(); }
  relay::LaneFilter* filter() { return filter_.get(); }
  const SharedLane& place() const { return *place_; }
  bool current() const { return current_; }
  bool collected() const { return take_->reading->collected; }

  // `tick`: where the window ends if not now. False: there is nothing to read.
  bool Open(const Snapshot* tick = nullptr) {
    if (TakeAhead()) {
      return true;
    }
    if (!resumes() && windows_->NothingSince(at_.base)) {
      return false;
    }
    const Snapshot look = place_->LooksFrom();
    Snapshot to = world_->Now();
    uint64_t lsn = 0;
    if (!resumes()) {
      windows_->ChooseEnd(look, &to, &lsn);
      if (to == look) {
        windows_->NoteNothingSince(look);
        return TakeAhead();
      }
    }
    current_ = !resumes() && tick == nullptr;
    to = resumes() ? *at_.target : current_ ? to : *tick;
    const SharedWindows::Gathered gathered = windows_->Gather(place_.get(), {look, at_.target, at_.done_to}, to);
    auto pass = std::make_shared<Pass>(gathered.from, to, gathered.after);
    pass->turn = current_ ? windows_->turn() : 0;
    ++figures_->passes;
    take_ = windows_->Join(pass, place_.get(), gathered.with);
    place_->NoteOpened(take_.get());
    return true;
  }

  // It need not open anything in this turn; checks that against the model.
  bool Rests(const Snapshot& turn_began) {
    if (open() || !place_->Rests()) {
      return false;
    }
    EXPECT_FALSE(resumes());
    for (const Row& row : world_->rows) {
      EXPECT_FALSE(world_->In(row, at_.base, turn_began) && Wants(row))
          << at_.base.ToText() << " to " << turn_began.ToText();
    }
    return true;
  }

  // Looks at `rows` more. `fail`: and then something fails.
  void Look(size_t rows, bool fail) {
    if (alone_ || take_->dropped || take_->reading->broken) {
      take_ = std::make_shared<LaneTake>(std::make_shared<Pass>(take_->from.base, take_->reading->to, take_->after()),
                                         take_->from, filter_.get(), size_t{1} << 20, size_t{1} << 19, nullptr);
      alone_ = false;
      ++figures_->passes;
    }
    Pass* pass = static_cast<Pass*>(take_->reading.get());
    const bool several = pass->takes.size() > 1;
    if (several) {
      windows_->BeginSlice(*pass);
    }
    for (; rows > 0 && pass->looked < world_->rows.size() && !pass->collected; --rows, ++pass->looked) {
      LookAt(pass, world_->rows[pass->looked], several);
    }
    if (fail) {
      windows_->Break(pass);
      take_->rows.Free();
      alone_ = true;
    } else {
      pass->collected |= pass->looked == world_->rows.size();
    }
  }

  // The window is read to its end; checks it against the model.
  void Finish() {
    while (alone_ || take_->dropped || take_->reading->broken || !take_->reading->collected) {
      Look(1000, false);
    }
    const Snapshot to = take_->reading->to;
    take_->rows.Finish();
    std::vector<int64_t> got;
    for (RowLocation next; take_->rows.large() && take_->rows.sorted()->Next(&next);) {
      got.push_back(next.created_at);
      EXPECT_EQ(world_->rows[next.location].created_at, next.created_at);
    }
    for (size_t i = 0; !take_->rows.large() && i < take_->rows.events(); ++i) {
      got.push_back(take_->rows.event(i).created_at);
      EXPECT_TRUE(Wants(world_->rows[static_cast<size_t>(take_->rows.event(i).created_at) - 1]));
    }
    std::vector<int64_t> wanted;
    for (const Row& row : world_->rows) {
      if (world_->In(row, at_.base, to) && !at_.Covers(row.xid, row.created_at) && Wants(row)) {
        wanted.push_back(row.created_at);
      }
    }
    EXPECT_TRUE(take_->from == at_) << take_->from.base.ToText() << " " << at_.base.ToText();
    EXPECT_TRUE(!resumes() || to == *at_.target) << "a window that was begun ends where it did";
    EXPECT_EQ(got, wanted) << at_.base.ToText() << " to " << to.ToText();
    read += got.size();
    at_ = {.base = to};
    take_.reset();
  }

  size_t read = 0;

 private:
  bool TakeAhead() {
    take_ = place_->TakeAhead(at_);
    current_ = take_ != nullptr && windows_->IsNow(*take_->reading);
    return take_ != nullptr;
  }

  bool Wants(const Row& row) const {
    return filter_->Wants(row.aggregate_type, row.aggregate_id, row.event_type, row.id, {});
  }

  void LookAt(Pass* pass, const Row& row, bool several) {
    ++figures_->looked;
    if (!world_->In(row, pass->from, pass->to) || row.created_at <= pass->after) {
      return;
    }
    const RowLocation location{row.created_at, static_cast<uint64_t>(&row - world_->rows.data())};
    const auto copy = [&row](Arena* arena, Event* event) {
      event->created_at = row.created_at;
      event->payload = arena->Copy("x");
    };
    if (!several) {
      if (Wants(row)) {
        take_->rows.Add(location, 0, bytes_, copy);
      }
      return;
    }
    const SharedWindows::Wanting* wanting = windows_->WantedBy(row.aggregate_type, row.event_type);
    if (wanting != nullptr) {
      windows_->Give(
          *wanting, {row.xid, row.id, row.aggregate_type, row.aggregate_id, row.event_type, {}}, location,
          [this] { return bytes_; }, copy);
    }
  }

  World* world_;
  SharedWindows* windows_;
  std::shared_ptr<relay::LaneFilter> filter_;
  Figures* figures_;
  size_t bytes_;
  Position at_;
  bool current_ = false;
  bool alone_ = false;  // the window has to be looked through again
  std::unique_ptr<SharedLane> place_;
  std::shared_ptr<LaneTake> take_;
};

inline std::shared_ptr<relay::LaneFilter> Filter(const std::vector<std::string>& types, uint32_t lane = 0,
                                                 uint32_t lanes = 1) {
  format::RouteConfig config;
  config.kind = &sink::kUnknownKind;
  config.aggregate_types = types;
  config.topic = "t";
  config.lane = lane;
  config.lanes = lanes;
  format::TemplateError error;
  return std::make_shared<relay::LaneFilter>(format::RouteSpec::Make(config, &error));
}

}  // namespace outbox::log
