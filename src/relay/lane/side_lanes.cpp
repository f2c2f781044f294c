#include "relay/lane/side_lanes.h"

#include <algorithm>

#include "relay/lane/lane.h"

namespace outbox::relay {

namespace {

// How long both may stand still for one try: a moment, and longer only where that was too short, as with a destination
// that is slow to answer. Then they go on for many times as long before the next.
constexpr int64_t kLeastRest = 500'000;
constexpr int64_t kMostRest = 5'000'000;
constexpr int64_t kPauses = 9;
constexpr int64_t kRejoinBase = 200'000;
constexpr int64_t kRejoinCap = 10'000'000;

// One that is neither in trouble nor paused, or has nothing to do.
bool MayReturn(const Lane& side) {
  return side.Flows() || side.RestsAt() != nullptr;
}

}  // namespace

SideLanes::SideLanes(Lane* lane, std::unique_ptr<SideLog> log, MakeLane make)
    : lane_(lane), log_(std::move(log)), make_(std::move(make)), rest_(kLeastRest), backoff_(kRejoinBase, kRejoinCap) {}

SideLanes::~SideLanes() = default;

Status SideLanes::Load() {
  std::vector<SideLane> records;
  Status status = log_->LoadSides(&records);
  if (!status.ok()) {
    return status;
  }
  for (SideLane& record : records) {
    for (const SideTopic& topic : record.topics) {
      lane_->filter()->Leave(topic.topic, record.topic_template);
    }
    Start(std::move(record));
  }
  return status;
}

void SideLanes::Start(SideLane record) {
  Side side;
  side.filter = std::make_shared<LaneFilter>(lane_->filter()->spec(), record.topic_template);
  for (const SideTopic& topic : record.topics) {
    side.filter->Take(topic.topic, topic.start);
  }
  side.lane = make_(lane_, record, side.filter, log_->OpenSide(record.side, side.filter.get()));
  side.record = std::move(record);
  const int32_t number = side.record.side;
  sides_.insert_or_assign(number, std::move(side));
}

// --- leaving -----------------------------------------------------------------------------------------------------

bool SideLanes::MayFork(const Lane* from, const Error& error, const EngineOptions& options) const {
  const bool shared = from == lane_ || from->filter()->topics() > 1;
  return shared && (error.code == kPausedCode || sides_.size() < options.max_sides);
}

int32_t SideLanes::FreeNumber() const {
  int32_t number = 1;
  while (sides_.contains(number)) {
    ++number;
  }
  return number;
}

Status SideLanes::Fork(Lane* from, const std::string& topic, const Error& error, const TurnContext& turn) {
  if (phase_ != Phase::kNone) {
    Cancel(turn);
  }
  ForkPlan plan;
  plan.side.side = FreeNumber();
  plan.side.topic_template = lane_->filter()->topic_template();
  from->PlanLeaving({topic, {}, error, turn.clock->WallMicros()}, turn, &plan);
  const Position position = plan.side.topics[0].start;
  int64_t next_due = kNever;
  Status status = log_->Fork(plan.side, position, plan.parked, &next_due);
  if (!status.ok()) {
    return status;
  }
  from->Left(plan, next_due, turn);
  if (from == lane_) {
    lane_->filter()->Leave(topic, plan.side.topic_template);
  } else {
    from->filter()->Return(topic);
    for (auto& [number, side] : sides_) {
      if (side.lane == from) {
        std::erase_if(side.record.topics, [&](const SideTopic& served) { return served.topic == topic; });
      }
    }
  }
  Start(std::move(plan.side));
  return status;
}

// --- coming back -------------------------------------------------------------------------------------------------

// A side lane that has read to the end of the log, if the lane has, too; else nullptr.
SideLanes::Side* SideLanes::Ready() {
  for (auto& [number, side] : sides_) {
    if (side.lane->Calm() && side.lane->caught_up() && MayReturn(*side.lane)) {
      return &side;
    }
  }
  return nullptr;
}

StepResult SideLanes::Step(TurnContext* turn) {
  if (phase_ == Phase::kNone) {
    if (!trouble_.ok() &&
        std::none_of(sides_.begin(), sides_.end(), [](const auto& side) { return MayReturn(*side.second.lane); })) {
      trouble_.Clear();
    }
    if (sides_.empty() || turn->now < next_try_ || !lane_->Calm() || !lane_->caught_up()) {
      return StepResult::kIdle;
    }
    const Side* side = Ready();
    if (side == nullptr) {
      return StepResult::kIdle;
    }
    returning_ = side->record.side;
    deadline_ = turn->now + rest_;
    phase_ = Phase::kSideRests;
    side->lane->SetOpens(false);
    return StepResult::kWorked;
  }
  Lane* side = sides_.at(returning_).lane;
  if (!side->Calm() || !lane_->Calm()) {
    Cancel(*turn);
    return StepResult::kWorked;
  }
  if (turn->now >= deadline_) {
    Cancel(*turn);
    next_try_ = std::max(next_try_, turn->now + kPauses * rest_);
    rest_ = std::min(2 * rest_, kMostRest);
    return StepResult::kWorked;
  }
  switch (phase_) {
    case Phase::kSideRests:
      if (const Snapshot* b = side->RestsAt()) {
        if (!lane_->HasRead(*b)) {
          lane_->Wake();
          return StepResult::kIdle;
        }
        lane_->SetOpens(false);
        phase_ = Phase::kLaneRests;
        return StepResult::kWorked;
      }
      return StepResult::kIdle;
    case Phase::kLaneRests:
      if (const Snapshot* m = lane_->RestsAt()) {
        side->LimitTo(m);
        side->SetOpens(true);
        phase_ = Phase::kSideEnds;
        return StepResult::kWorked;
      }
      return StepResult::kIdle;
    case Phase::kSideEnds:
      if (const Snapshot* end = side->RestsAt(); end != nullptr && end->Covers(*lane_->RestsAt())) {
        return Rejoin(turn);
      }
      return StepResult::kIdle;
    case Phase::kNone:
      break;
  }
  return StepResult::kIdle;
}

StepResult SideLanes::Rejoin(TurnContext* turn) {
  Side& side = sides_.at(returning_);
  const Snapshot* m = lane_->RestsAt();
  // What each has delivered until now is saved under its own windows.
  if (!lane_->SaveAll(turn) || !side.lane->SaveAll(turn)) {
    Cancel(*turn);
    return StepResult::kWorked;
  }
  const Status status = log_->Rejoin(returning_, Position{*m, std::nullopt, kBeforeAllTime});
  if (status.not_owner()) {
    return StepResult::kLost;
  }
  if (!status.ok()) {
    trouble_.Note(status.error(), turn->clock->WallMicros());
    Cancel(*turn);
    return StepResult::kWorked;
  }
  trouble_.Clear();
  for (const SideTopic& topic : side.record.topics) {
    lane_->filter()->Return(topic.topic);
  }
  Lane* back = side.lane;
  sides_.erase(returning_);
  back->Retire();
  LetGo();
  backoff_.Reset();
  rest_ = kLeastRest;
  next_try_ = 0;
  lane_->ApplyPauses();  // if none is away any more, readers go by the present template
  return StepResult::kWorked;
}

// The lane goes on at once, and so does the side lane, apart from it.
void SideLanes::Cancel(const TurnContext& turn) {
  const auto found = sides_.find(returning_);
  if (found != sides_.end()) {
    found->second.lane->LimitTo(nullptr);
    found->second.lane->SetOpens(true);
  }
  LetGo();
  next_try_ = turn.now + backoff_.Next(turn.clock->Random());
}

void SideLanes::LetGo() {
  lane_->SetOpens(true);
  phase_ = Phase::kNone;
  returning_ = 0;
}

int64_t SideLanes::NextTime(const TurnContext& turn) const {
  if (sides_.empty()) {
    return kNever;
  }
  const int64_t at = phase_ == Phase::kNone ? next_try_ : deadline_;
  return at > turn.now ? at : kNever;
}

// --- with the lane -----------------------------------------------------------------------------------------------

void SideLanes::SetSpec(const std::shared_ptr<const format::RouteSpec>& spec) {
  for (auto& [number, side] : sides_) {
    side.lane->SetSpec(spec);
  }
}

void SideLanes::Release(int64_t deadline) {
  for (auto& [number, side] : sides_) {
    side.lane->Release(deadline);
  }
}

void SideLanes::Lose() {
  for (auto& [number, side] : sides_) {
    side.lane->Lose();
  }
}

void SideLanes::NotePutBack() {
  for (auto& [number, side] : sides_) {
    side.lane->NotePutBack();
  }
}

void SideLanes::OnGone(const Lane* gone) {
  for (auto it = sides_.begin(); it != sides_.end(); ++it) {
    if (it->second.lane == gone) {
      clean_ = clean_ && gone->gone_reason() == GoneReason::kReleased;
      if (it->first == returning_) {
        LetGo();
      }
      sides_.erase(it);
      trouble_.Clear();
      return;
    }
  }
}

uint64_t SideLanes::BarrierDone(uint64_t own) const {
  uint64_t done = own;
  for (const auto& [number, side] : sides_) {
    done = std::min(done, side.lane->barrier_done());
  }
  return done;
}

uint64_t SideLanes::withheld_version() const {
  uint64_t hash = sides_.size();
  for (const auto& [number, side] : sides_) {
    if (!side.lane->LetsClaim()) {
      hash = (hash + side.lane->flow()) * 0x9e3779b97f4a7c15 + side.record.topics.size();
    }
  }
  for (const std::string& topic : lane_->filter()->spec()->paused_topics()) {
    hash = (hash + std::hash<std::string>()(topic)) * 0x9e3779b97f4a7c15;
  }
  return hash;
}

std::vector<std::string> SideLanes::WithheldTopics() const {
  const auto& paused = lane_->filter()->spec()->paused_topics();
  std::vector<std::string> topics(paused.begin(), paused.end());
  for (const auto& [number, side] : sides_) {
    if (!side.lane->LetsClaim()) {
      for (const SideTopic& topic : side.record.topics) {
        topics.push_back(topic.topic);
      }
    }
  }
  std::sort(topics.begin(), topics.end());
  topics.erase(std::unique(topics.begin(), topics.end()), topics.end());
  return topics;
}

}  // namespace outbox::relay
