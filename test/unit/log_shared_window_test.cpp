// Lanes that read windows together, against the model of one lane each: whatever the others do, a lane gets from each
// window what is its own, in order, and its windows follow each other without a gap.
#include "log/shared_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "relay/lane_filter.h"

namespace outbox::log {
namespace {

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

std::shared_ptr<relay::LaneFilter> Filter(const std::vector<std::string>& types, uint32_t lane = 0,
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

class SharedWindow : public ::testing::Test {
 protected:
  SimLane* Lane(std::shared_ptr<relay::LaneFilter> filter, const Snapshot& base) {
    return Lane(std::move(filter), Position{.base = base});
  }
  SimLane* Lane(std::shared_ptr<relay::LaneFilter> filter, const Position& at) {
    lanes.push_back(std::make_unique<SimLane>(&world, &windows, std::move(filter), at, &figures));
    return lanes.back().get();
  }
  void Read(SimLane* lane) {
    if (lane->Open()) {
      lane->Finish();
    }
  }
  void ReadAll() {
    windows.BeginTurn();
    for (const auto& lane : lanes) {
      Read(lane.get());
    }
  }
  void Emit(int count) {
    for (int i = 0; i < count; ++i) {
      world.Commit("a" + std::to_string(i % 5), "k" + std::to_string(i));
    }
  }

  World world;
  Figures figures;
  SharedWindows windows;
  std::vector<std::unique_ptr<SimLane>> lanes;
};

// --- tests ---------------------------------------------------------------------------------------------------------

TEST_F(SharedWindow, LanesAtOnePlaceLookOnce) {
  const Snapshot start = world.Now();
  for (uint32_t lane = 0; lane < 64; ++lane) {
    Lane(Filter({"a*"}, lane, 64), start);
  }
  for (int i = 0; i < 20; ++i) {
    Lane(Filter({"a" + std::to_string(i)}), start);
  }
  size_t read = 0;
  for (int window = 1; window <= 3; ++window) {
    Emit(1000);
    ReadAll();
    EXPECT_EQ(figures.passes, static_cast<size_t>(window));
    read += 2000;
  }
  size_t all = 0;
  for (const auto& lane : lanes) {
    EXPECT_TRUE(lane->current());
    all += lane->read;
  }
  EXPECT_EQ(all, read);  // by the lanes of one route, and by five of the others
}

TEST_F(SharedWindow, WhoHasNothingToReadRests) {
  const Snapshot start = world.Now();
  SimLane* first = Lane(Filter({"a1"}), start);
  SimLane* idle = Lane(Filter({"other"}), start);
  SimLane* busy = Lane(Filter({"a2"}), start);
  EXPECT_FALSE(idle->Rests(start)) << "nobody has looked";
  for (int i = 0; i < 100; ++i) {
    Emit(5);
    windows.BeginTurn();
    EXPECT_FALSE(idle->Rests(world.Now())) << "nobody has looked in this turn";
    Read(first);
    EXPECT_TRUE(idle->Rests(world.Now()));
    EXPECT_FALSE(busy->Rests(world.Now()));
    Read(busy);
    windows.BeginTurn();
    Read(first);
    EXPECT_TRUE(idle->Rests(world.Now())) << "nothing is new";
  }
  EXPECT_EQ(figures.passes, 100u);
  EXPECT_TRUE(idle->base() == start);
  // What it has passed over is one window, without another look; and so is that with what comes then.
  windows.BeginTurn();
  ASSERT_TRUE(idle->Open());
  idle->Finish();
  EXPECT_TRUE(idle->base() == world.Now());
  EXPECT_EQ(figures.passes, 100u);
  Emit(5);
  windows.BeginTurn();
  Read(first);
  EXPECT_TRUE(idle->Rests(world.Now()));
  world.Commit("other", "k");
  windows.BeginTurn();
  Read(first);
  EXPECT_FALSE(idle->Rests(world.Now()));
  Read(idle);
  EXPECT_EQ(idle->read, 1u);
  EXPECT_EQ(figures.passes, 102u);
}

// The one that is woken looks from where the others have come to, and takes them along.
TEST_F(SharedWindow, WhoHasRestedLooksForTheOthers) {
  const Snapshot start = world.Now();
  SimLane* one = Lane(Filter({"other"}), start);
  SimLane* two = Lane(Filter({"other"}), start);
  SimLane* last = Lane(Filter({"a1"}), start);
  for (SimLane* opener : {one, two, one, two}) {
    Emit(5);
    windows.BeginTurn();
    Read(opener);
    EXPECT_TRUE((opener == one ? two : one)->Rests(world.Now()));
    Read(last);
    EXPECT_TRUE(opener->base() == world.Now());
  }
  EXPECT_EQ(figures.passes, 4u);
  EXPECT_EQ(figures.looked, world.rows.size() + 15 + 10 + 5) << "each look is at all rows of the model";
  EXPECT_EQ(last->read, 4u);
}

TEST_F(SharedWindow, WhoseFilterChangesRestsNoMore) {
  const Snapshot start = world.Now();
  SimLane* first = Lane(Filter({"*"}), start);
  SimLane* away = Lane(Filter({"*"}), start);
  away->filter()->Leave("t", "t");
  Emit(5);
  windows.BeginTurn();
  Read(first);
  EXPECT_TRUE(away->Rests(world.Now()));
  away->filter()->Return("t");
  // It left in between: what was judged by the older filter is judged again.
  EXPECT_FALSE(away->place().Rests());
  Emit(5);
  windows.BeginTurn();
  Read(first);
  Read(away);
  EXPECT_EQ(away->read, 10u);
}

TEST_F(SharedWindow, LanesThatStandNearlyAtOnePlaceLookOnce) {
  std::vector<Snapshot> places;
  for (int i = 0; i < 50; ++i) {
    places.push_back(world.Now());
    Emit(3);
  }
  std::shuffle(places.begin(), places.end(), std::mt19937(7));
  for (const Snapshot& place : places) {
    Lane(Filter({"a*"}), place);
  }
  Emit(2000);
  ReadAll();
  EXPECT_EQ(figures.passes, 1u);
  Emit(10);
  ReadAll();
  EXPECT_EQ(figures.passes, 2u);
}

TEST_F(SharedWindow, WhoIsFarAwayReadsAlone) {
  SimLane* behind = Lane(Filter({"*"}), world.Now());
  Emit(static_cast<int>(SharedLane::kNear) + 1);
  SimLane* ahead = Lane(Filter({"*"}), world.Now());
  Emit(5);
  windows.BeginTurn();
  Read(ahead);
  EXPECT_EQ(figures.passes, 1u);
  EXPECT_EQ(ahead->read, 5u);
  Read(behind);
  EXPECT_EQ(figures.passes, 2u);
  Emit(5);
  ReadAll();
  EXPECT_EQ(figures.passes, 3u);  // together again
}

// After seek(), and of a worker that ended while it sent one large transaction.
TEST_F(SharedWindow, LanesInTheMiddleOfOneWindowReadItsRestOnce) {
  const Snapshot start = world.Now();
  Emit(1000);
  const Snapshot end = world.Now();
  Emit(10);
  std::vector<int64_t> done;
  for (uint32_t lane = 0; lane < 64; ++lane) {
    done.push_back(lane % 2 == 0 ? 300 : 300 + 10 * lane);
    Lane(Filter({"a*"}, lane, 64), Position{start, end, done.back()});
  }
  SimLane* nothing = Lane(Filter({"other"}), Position{start, end, 500});
  SimLane* end_of_it = Lane(Filter({"a1"}), end);
  SimLane* beginning = Lane(Filter({"a1"}), start);
  SimLane* elsewhere = Lane(Filter({"a1"}), Position{start, world.Now(), 300});
  windows.BeginTurn();
  for (uint32_t lane = 0; lane < 64; ++lane) {
    Read(lanes[lane].get());
    EXPECT_TRUE(lanes[lane]->base() == end);
  }
  EXPECT_EQ(figures.passes, 1u);
  EXPECT_FALSE(nothing->Rests(world.Now()));
  Read(nothing);
  EXPECT_TRUE(nothing->base() == end);
  EXPECT_EQ(figures.passes, 1u);
  ReadAll();
  EXPECT_EQ(figures.passes, 3u)
      << "what follows, together with the whole for the one that is near, and the other window";
  EXPECT_EQ(end_of_it->read, 2u);
  EXPECT_EQ(beginning->read, 202u);
  EXPECT_EQ(elsewhere->read, 142u);
  EXPECT_EQ(nothing->read, 0u);
}

TEST_F(SharedWindow, WhoReadsNothingIsLeftBehind) {
  const Snapshot start = world.Now();
  SimLane* paused = Lane(Filter({"*"}), start);
  SimLane* other = Lane(Filter({"*"}), start);
  for (size_t i = 0; i < 3 * SharedLane::kMostAhead; ++i) {
    Emit(10);
    windows.BeginTurn();
    Read(other);
  }
  EXPECT_EQ(paused->read, 0u);
  windows.BeginTurn();
  size_t opened = 0;
  for (; paused->read < other->read; ++opened) {
    ASSERT_TRUE(paused->Open());
    EXPECT_EQ(paused->current(), opened == SharedLane::kMostAhead) << "what ended in an earlier turn does not end now";
    paused->Finish();
  }
  EXPECT_EQ(opened, SharedLane::kMostAhead + 1);
  EXPECT_EQ(figures.passes, 3 * SharedLane::kMostAhead + 1);
}

// Lane 0 reads in each turn, lane n in each n-th, as the shares of keys are in a backlog.
class UnevenLanes : public ::testing::Test {
 protected:
  void Run(size_t memory, int windows_read) {
    SharedWindows windows(memory);
    std::vector<std::unique_ptr<SimLane>> lanes;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      lanes.push_back(std::make_unique<SimLane>(&world, &windows, Filter({"*"}, lane, kLanes),
                                                Position{.base = world.Now()}, &figures, 1000));
    }
    for (int turn = 0; turn < windows_read; ++turn) {
      for (int i = 0; i < 100; ++i) {
        world.Commit("a", "k" + std::to_string(i));
      }
      windows.BeginTurn();
      for (int lane = 0; lane < kLanes; ++lane) {
        if (turn % (lane + 1) == 0 && lanes[static_cast<size_t>(lane)]->Open()) {
          lanes[static_cast<size_t>(lane)]->Finish();
        }
      }
      most_held = std::max(most_held, windows.held());
    }
    for (bool more = true; more;) {
      more = false;
      windows.BeginTurn();
      for (const auto& lane : lanes) {
        if (lane->Open()) {
          lane->Finish();
          more = true;
        }
      }
    }
    size_t read = 0;
    for (const auto& lane : lanes) {
      read += lane->read;
    }
    EXPECT_EQ(read, static_cast<size_t>(windows_read) * 100);
  }

  static constexpr int kLanes = 8;
  World world;
  Figures figures;
  size_t most_held = 0;
};

TEST_F(UnevenLanes, AllLookOnceWhileThereIsRoom) {
  Run(size_t{64} << 20, 60);
  EXPECT_EQ(figures.passes, 60u);
}

TEST_F(UnevenLanes, WhoIsBehindKeepsOnlyWhereItsEventsAre) {
  // As events they would take 60 * 100 * 1000 bytes; where they are takes a sixtieth of that.
  Run(size_t{2} << 20, 60);
  EXPECT_EQ(figures.passes, 60u);
  EXPECT_LT(most_held, size_t{1} << 20);
}

TEST_F(UnevenLanes, WhoIsLeftBehindReadsOnWithTheOthersThatAre) {
  Run(size_t{128} << 10, 60);
  EXPECT_GT(figures.passes, 60u);
  EXPECT_LE(figures.passes, 120u);
}

TEST_F(SharedWindow, WhatFailsForAllIsReadByEach) {
  const Snapshot start = world.Now();
  for (int i = 0; i < 4; ++i) {
    Lane(Filter({"*"}), start);
  }
  Emit(100);
  windows.BeginTurn();
  ASSERT_TRUE(lanes[0]->Open());
  ASSERT_TRUE(lanes[1]->Open());
  lanes[0]->Look(40, false);
  lanes[1]->Look(40, false);
  lanes[0]->Look(10, true);
  lanes[1]->Finish();
  lanes[0]->Finish();
  ReadAll();
  EXPECT_EQ(figures.passes, 1u + 2u + 2u);
  Emit(10);
  ReadAll();
  EXPECT_EQ(figures.passes, 6u);  // together again
}

TEST_F(SharedWindow, WhatWasReadByAnotherFilterIsReadAgain) {
  const Snapshot start = world.Now();
  SimLane* first = Lane(Filter({"*"}), start);
  SimLane* second = Lane(Filter({"*"}), start);
  Emit(10);
  windows.BeginTurn();
  Read(first);
  second->filter()->Leave("t", "t");
  Read(second);
  EXPECT_EQ(second->read, 0u);
  EXPECT_EQ(figures.passes, 2u);
  Emit(10);
  windows.BeginTurn();
  Read(first);
  second->filter()->Return("t");
  Read(second);
  EXPECT_EQ(second->read, 10u);
}

// A route with many lanes is altered.
TEST_F(SharedWindow, WhatWasReadByOtherFiltersIsReadAgainOnce) {
  const Snapshot start = world.Now();
  for (uint32_t lane = 0; lane < 64; ++lane) {
    Lane(Filter({"*"}, lane, 64), start);
  }
  Emit(500);
  windows.BeginTurn();
  Read(lanes[0].get());
  for (const auto& lane : lanes) {
    lane->filter()->Leave("t", "t");
    lane->filter()->Return("t");
  }
  ReadAll();
  EXPECT_EQ(figures.passes, 2u);
  size_t read = 0;
  for (const auto& lane : lanes) {
    read += lane->read;
  }
  EXPECT_EQ(read, 500u);
}

TEST_F(SharedWindow, LanesComeAndGo) {
  const Snapshot start = world.Now();
  for (int i = 0; i < 5; ++i) {
    Lane(Filter({"*"}), start);
  }
  Emit(100);
  windows.BeginTurn();
  ASSERT_TRUE(lanes[0]->Open());
  lanes[0]->Look(50, false);
  ASSERT_TRUE(lanes[3]->Open());
  lanes.erase(lanes.begin());  // the one that began
  Lane(Filter({"a1"}), start);
  for (const auto& lane : lanes) {
    if (lane->open() || lane->Open()) {
      lane->Finish();
    }
  }
  EXPECT_EQ(figures.passes, 2u);
  EXPECT_EQ(lanes.back()->read, 20u);
  lanes.clear();
  EXPECT_EQ(windows.held(), 0u);
}

TEST_F(SharedWindow, TypesAreForgottenWhenThereAreTooMany) {
  const Snapshot start = world.Now();
  Lane(Filter({"type 1*"}), start);
  Lane(Filter({"type 2*"}), start);
  for (int i = 0; i < 10'000; ++i) {
    world.Commit("type " + std::to_string(i), "k");
  }
  ReadAll();
  EXPECT_EQ(lanes[0]->read, 1111u);
  EXPECT_EQ(lanes[1]->read, 1111u);
  EXPECT_EQ(figures.passes, 1u);
}

// --- at random -----------------------------------------------------------------------------------------------------

class Case {
 public:
  explicit Case(uint32_t seed)
      : random_(seed), windows_(Below(3) == 0 ? (size_t{1} << 14) << Below(8) : size_t{64} << 20) {
    const int routes = 1 + Below(6);
    for (int route = 0; route < routes; ++route) {
      const uint32_t lanes = Below(2) == 0 ? 1 : static_cast<uint32_t>(1 + Below(8));
      const std::string type = Below(3) == 0 ? "*" : "a" + std::to_string(Below(4));
      for (uint32_t lane = 0; lane < lanes; ++lane) {
        makers_.push_back([=] { return Filter({type}, lane, lanes); });
      }
    }
    places_.push_back(world_.Now());
    for (size_t i = 0; i < makers_.size(); ++i) {
      lanes_.push_back(New(i, {.base = places_.front()}));
    }
  }

  size_t rested() const { return rested_; }
  size_t resuming() const { return resuming_; }

  void Run() {
    for (int step = 0; step < 600; ++step) {
      Step();
      // Somebody's own window and one row beyond the limit of all are not counted as too much.
      ASSERT_LE(windows_.held(), (size_t{64} << 20) + (size_t{2} << 20) * lanes_.size());
    }
    for (uint64_t xid : std::set<uint64_t>(world_.running())) {
      world_.End(xid, true);
    }
    for (int round = 0; round < 40; ++round) {
      windows_.BeginTurn();
      for (const auto& lane : lanes_) {
        if (lane->open() || lane->Open()) {
          lane->Finish();
        }
      }
    }
    for (const auto& lane : lanes_) {
      EXPECT_EQ(lane->base().xmax, world_.Now().xmax) << "all is read in the end";
    }
    lanes_.clear();
    EXPECT_EQ(windows_.held(), 0u);
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  std::unique_ptr<SimLane> New(size_t i, Position at) {
    return std::make_unique<SimLane>(&world_, &windows_, makers_[i](), std::move(at), &figures_,
                                     size_t{1} << Below(18));
  }

  // Some lanes are put into the middle of one window, as by seek(), or by a crash: then each has come as far as it has.
  void Seek() {
    const Snapshot from = places_[static_cast<size_t>(Below(static_cast<int>(places_.size())))];
    const Snapshot to = world_.Now();
    if (from == to || !to.Covers(from)) {
      return;
    }
    const bool crash = Below(2) == 0;
    const auto time = [this] { return static_cast<int64_t>(Below(static_cast<int>(world_.rows.size()) + 2)); };
    const int64_t done = time();
    for (size_t i = 0; i < lanes_.size(); ++i) {
      if (Below(3) != 0) {
        lanes_[i].reset();
        lanes_[i] = New(i, {from, to, crash ? time() : done});
        ++resuming_;
      }
    }
  }

  void Step() {
    switch (Below(13)) {
      case 0:
      case 1: {  // transactions
        for (int i = Below(20); i > 0; --i) {
          const uint64_t xid = world_.Begin();
          for (int events = Below(4); events > 0; --events) {
            world_.Emit(xid, "a" + std::to_string(Below(5)), "k" + std::to_string(Below(30)));
          }
          if (Below(8) != 0) {
            world_.End(xid, Below(6) != 0);
          }
        }
        return;
      }
      case 2: {  // one that was unfinished for long
        if (!world_.running().empty()) {
          auto xid = world_.running().begin();
          std::advance(xid, Below(static_cast<int>(world_.running().size())));
          world_.End(*xid, Below(4) != 0);
        }
        return;
      }
      case 3:
        windows_.BeginTurn();
        turn_began_ = world_.Now();
        return;
      case 4:
        places_.push_back(world_.Now());  // a tick
        return;
      case 5: {  // a crash of one, a seek back, a new owner
        const size_t i = Pick();
        if (Below(4) == 0) {
          const Snapshot base =
              Below(3) == 0 ? places_[static_cast<size_t>(Below(static_cast<int>(places_.size())))] : lanes_[i]->base();
          lanes_[i].reset();
          lanes_[i] = New(i, {.base = base});
        }
        return;
      }
      case 12:
        if (Below(10) == 0) {
          Seek();
        }
        return;
      case 6: {  // a topic leaves or comes back, between two windows
        SimLane* lane = lanes_[Pick()].get();
        if (!lane->open() && Below(3) == 0) {
          if (lane->filter()->topics() > 0) {
            lane->filter()->Return("t");
          } else {
            lane->filter()->Leave("t", "t");
          }
        }
        return;
      }
      default: {
        SimLane* lane = lanes_[Pick()].get();
        if (lane->Rests(turn_began_) && Below(5) != 0) {
          ++rested_;
        } else if (!lane->open()) {
          const Snapshot* tick = nullptr;
          for (const Snapshot& place : places_) {
            const Snapshot& from = lane->looks_from();
            if (tick == nullptr && Below(2) == 0 && place.xmax > from.xmax && place.Covers(from)) {
              tick = &place;
            }
          }
          lane->Open(tick);
        } else if (!lane->collected() && Below(2) == 0) {
          lane->Look(static_cast<size_t>(1 + Below(40)), Below(10) == 0);
        } else if (Below(3) != 0) {
          lane->Finish();
        }
        return;
      }
    }
  }

  // Some lanes are slow.
  size_t Pick() {
    const size_t i = static_cast<size_t>(Below(static_cast<int>(lanes_.size())));
    return i % 3 == 0 && Below(5) != 0 ? static_cast<size_t>(Below(static_cast<int>(lanes_.size()))) : i;
  }

  std::mt19937 random_;
  size_t rested_ = 0;
  size_t resuming_ = 0;
  World world_;
  Figures figures_;
  SharedWindows windows_;
  std::vector<std::function<std::shared_ptr<relay::LaneFilter>()>> makers_;
  std::vector<Snapshot> places_;
  Snapshot turn_began_ = world_.Now();
  std::vector<std::unique_ptr<SimLane>> lanes_;
};

TEST(SharedWindowProperty, EachLaneGetsWhatItWouldGetAlone) {
  size_t rested = 0;
  size_t resuming = 0;
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Case one(seed);
    one.Run();
    rested += one.rested();
    resuming += one.resuming();
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
  EXPECT_GT(rested, 1000u);
  EXPECT_GT(resuming, 1000u);
}

}  // namespace
}  // namespace outbox::log
