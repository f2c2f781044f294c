#include "parked/pg_parked_log.h"

#include <algorithm>

#include "base/fault_point.h"
#include "days/with_day_table.h"
#include "parked/rows.h"
#include "parked/statements.h"
#include "pg/sql.h"
#include "pg/wall.h"
#include "relay/common/engine_types.h"

namespace outbox::parked {

using namespace pg::sql;

namespace {

constexpr int64_t kRecheckEvery = 500'000;
constexpr int64_t kRecheckEach = 1'000;  // added for each key
constexpr int64_t kGoOnIn = 20'000;      // if one claim did not reach the end
constexpr int64_t kPassEvery = 30'000'000;
constexpr int64_t kPassShare = 20;       // a twentieth of the time at most goes into passes
constexpr size_t kPassSentAfter = 1000;  // events claimed: until then it costs less to look past what has gone

void SortUnique(std::vector<uint64_t>* keys) {
  std::sort(keys->begin(), keys->end());
  keys->erase(std::unique(keys->begin(), keys->end()), keys->end());
}

}  // namespace

PgParkedLog::PgParkedLog(const LaneId& lane, uint64_t incarnation, DeadLetters* dead, NothingParked* nothing,
                         const Erasures* erasures)
    : lane_(lane),
      incarnation_(incarnation),
      dead_(dead),
      nothing_(nothing),
      erasures_(erasures),
      fronts_(std::make_unique<DueFronts>()),
      work_(std::make_unique<DueWork>()) {}

PgParkedLog::~PgParkedLog() = default;

Status PgParkedLog::LoadHeld(format::RecordFormat* format, bool renamed, std::vector<uint64_t>* keys,
                             int64_t* next_due) {
  const ParkedOwner me{lane_, incarnation_};
  keys->clear();
  if (nothing_->For(lane_)) {
    found_ = false;
    *next_due = relay::kNever;
    loaded_ = true;
    key_fronts_.Clear();
    return Status();
  }
  keys_.clear();
  locked_.clear();
  bool owner = true;
  Status status = TryInTransaction([&] {
    bool block = false;
    owner = OwnsLane(me, &block);
    if (owner) {
      if (!loaded_) {
        ForgetSenders(me);
        BringForward(me, pg::BelievedWall());
      }
      ReadHeld(me, block, keys, &keys_);
      // When a lane is taken over: what its last owner parked and did not live to rename.
      if ((renamed || !loaded_) && RenameParked(me, block, format, renamed ? nullptr : keys)) {
        keys->clear();
        keys_.clear();
        ReadHeld(me, block, keys, &keys_);
      }
      // For keys that were kept back only because of a policy that has changed, or that a crash left behind.
      PromoteHeads(lane_.route_id, block, keys_, pg::BelievedWall(), kNoFronts);
      FindHeadless(me, block, keys_, kNoFronts, &locked_);
      *next_due = NextDue(me, without_, *fronts_);
    }
  });
  if (status.ok() && owner) {
    Doubt(locked_);
    loaded_ = true;
    key_fronts_.Clear();
    pass_wanted_ = true;
    SortUnique(keys);
  }
  return std::move(status).OfOwner(owner);
}

Status PgParkedLog::Park(std::span<const relay::Parking> events, int64_t* next_due) {
  bool owner = true;
  keys_.clear();
  locked_.clear();
  for (const relay::Parking& parking : events) {
    if (parking.state == relay::ParkedState::kBlocked && !parking.paused && parking.order_key != 0) {
      keys_.push_back(parking.order_key);
    }
    if (HasDue(parking.state) && fronts_->Reach(parking.due - kPgEpochMicros)) {
      *fronts_ = DueFronts();
    }
    const KeyPoint point{parking.event.created_at, 0, parking.event.id};
    key_fronts_.Appeared(parking.order_key, point);
    if (parking.state == relay::ParkedState::kDead) {
      key_fronts_.DeadAppeared(parking.order_key, point);
    }
  }
  SortUnique(&keys_);
  const ParkedOwner me{lane_, incarnation_};
  Status status = TryInTransaction([&] {
    bool block = false;
    OUTBOX_FAULT_THROW("parked.park.before");
    owner = OwnsLane(me, &block) && InsertParked(me, events);
    if (owner) {
      erasures_->RefuseErased();
      PromoteHeads(lane_.route_id, block, keys_, pg::BelievedWall(), key_fronts_);
      LockHolders(me, block, keys_, key_fronts_, &locked_);
      *next_due = NextDue(me, without_, *fronts_);
    } else {
      ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE), errmsg("the lane is not this worker's any more")));
    }
    OUTBOX_FAULT_THROW("parked.park.uncommitted");
  });
  OUTBOX_FAULT_POINT("parked.park.after");
  if (!owner) {
    return Status().OfOwner(owner);  // what is raised above takes back what was inserted
  }
  if (status.ok()) {
    for (const relay::Parking& parking : events) {
      if (parking.state == relay::ParkedState::kDead) {
        dead_->Add(lane_.route_id, parking.error);
      }
    }
    SortUnique(&locked_);
    std::set_difference(keys_.begin(), keys_.end(), locked_.begin(), locked_.end(), std::back_inserter(unsure_));
    SortUnique(&unsure_);
  }
  return status;
}

void PgParkedLog::Doubt(const std::vector<uint64_t>& keys) {
  unsure_.insert(unsure_.end(), keys.begin(), keys.end());
  SortUnique(&unsure_);
}

// After a call that was made at `now`. A lock that is let go tells nobody: what is unsure is due for a recheck, but
// never at `now` itself, which to the engine means that another worker has it.
void PgParkedLog::DoubtAfter(int64_t now, const std::vector<uint64_t>& keys, int64_t* next_due) {
  Doubt(keys);
  if (!unsure_.empty()) {
    *next_due = std::min(*next_due, std::max(next_recheck_, now + 1));
  }
}

// Rechecks heads that an operator had locked when something was put behind them: they may be gone.
void PgParkedLog::Recheck(bool block, int64_t now) {
  const ParkedOwner me{lane_, incarnation_};
  PromoteHeads(lane_.route_id, block, unsure_, now, kNoFronts);
  locked_.clear();
  LockHolders(me, block, unsure_, kNoFronts, &locked_);
  FindFree(me, block, unsure_, kNoFronts, &locked_);
}

// Appends those of keys_ that nothing holds any more. Plain.
void PgParkedLog::FindFreed(bool block, std::vector<uint64_t>* freed) {
  const ParkedOwner me{lane_, incarnation_};
  kept_.clear();
  FindFree(me, block, keys_, key_fronts_, &kept_);
  // Behind their fronts nothing is left of these; before one something may have appeared.
  const auto known = std::partition(kept_.begin(), kept_.end(), [&](uint64_t key) { return !key_fronts_.Knows(key); });
  freed->insert(freed->end(), kept_.begin(), known);
  kept_.erase(kept_.begin(), known);
  for (const uint64_t key : kept_) {
    key_fronts_.Forget(key);
  }
  FindFree(me, block, kept_, key_fronts_, freed);
}

// Reads and judges what is due; false: there is more behind where it came to. Plain.
bool PgParkedLog::ReadWork(const relay::ClaimLimits& limits, bool block, DueFronts* fronts) {
  const ParkedOwner me{lane_, incarnation_};
  DueWork* work = work_.get();
  const bool all = limits.without.empty();
  bool to_end = true;
  if (all) {
    ReadDue(me, limits, true, {fronts->keyed, {DT_NOEND, DT_NOEND}}, work);
  } else {
    to_end = ReadDueBehind(me, limits, true, &fronts->keyed, work);
  }
  // Rows without a key come after the others have been judged by theirs.
  ReadDueKeys(me, block, &key_fronts_, work);
  JudgeDue(work);
  if (all) {
    ReadDue(me, limits, false, {fronts->shared, {DT_NOEND, DT_NOEND}}, work);
  } else {
    to_end = ReadDueBehind(me, limits, false, &fronts->shared, work) && to_end;
  }
  CutTaken(limits, work);
  return to_end;
}

// Called after a recheck: keys whose heads are still locked stay unsure.
void PgParkedLog::KeepLocked(int64_t now) {
  next_recheck_ = now + kRecheckEvery + static_cast<int64_t>(unsure_.size()) * kRecheckEach;
  SortUnique(&locked_);
  kept_.clear();
  std::set_difference(unsure_.begin(), unsure_.end(), locked_.begin(), locked_.end(), std::back_inserter(kept_));
  std::swap(unsure_, kept_);
}

// What one claim does beside claiming, and what it leaves for after its commit.
struct PgParkedLog::Claiming {
  bool went_back = false;  // the clock
  bool recheck = false;
  bool pass_sent = false;
  DueFronts fronts;
  bool to_end = true;
};

// In the transaction; false: the lane is another's.
bool PgParkedLog::ClaimDue(const relay::ClaimLimits& limits, Claiming* claiming, relay::ClaimedChunk* chunk,
                           int64_t* next_due) {
  const ParkedOwner me{lane_, incarnation_};
  DueWork* work = work_.get();
  bool block = false;
  if (!OwnsLane(me, &block)) {
    return false;
  }
  OUTBOX_FAULT_THROW("parked.claim.before");
  if (claiming->went_back) {
    BringForward(me, limits.now);
  }
  if (claiming->recheck) {
    Recheck(block, limits.now);
  }
  if (claiming->pass_sent) {
    PassSent(me, limits.now, &claiming->fronts);
  }
  claiming->to_end = ReadWork(limits, block, &claiming->fronts);
  keys_.clear();
  while (DropCancelled(me, *work, &keys_)) {
    PromoteHeads(lane_.route_id, block, keys_, limits.now, key_fronts_);
    work->Clear();
    claiming->to_end = ReadWork(limits, block, &claiming->fronts);
  }
  FindHeadless(me, block, keys_, key_fronts_, &work->unsure);
  PromoteHeads(lane_.route_id, block, work->headless, limits.now, key_fronts_);
  FindHeadless(me, block, work->headless, key_fronts_, &work->stuck);
  BlockStuck(work);
  if (!work->unsure.empty()) {
    BlockRows(me, *work);
  }
  const bool owner = TakeRows(me, *work, chunk);
  if (owner) {
    *next_due = NextDue(me, limits.without, claiming->fronts);
  }
  OUTBOX_FAULT_THROW("parked.claim.uncommitted");
  return owner;
}

// After the commit. `claimed`: so many events were.
void PgParkedLog::Learn(const relay::ClaimLimits& limits, const Claiming& claiming, size_t claimed, int64_t* next_due) {
  const DueWork& work = *work_;
  latest_ = claiming.went_back ? limits.now : std::max(latest_, limits.now);
  if (claiming.recheck) {
    KeepLocked(limits.now);
  }
  found_ = *next_due != relay::kNever || claimed > 0;
  if (claimed == 0 && work.headless.empty()) {
    // What is due could not be claimed by this lane just now.
    *next_due = std::max(*next_due, limits.now + kRecheckEvery);
  }
  DoubtAfter(limits.now, work.unsure, next_due);
  for (const DueKey& key : work.keys) {
    if (key.count > 0) {
      key_fronts_.Found(key.order_key, work.waiting[key.first].point, key.count);
    }
  }
  for (const DueRow& row : work.rows) {
    if (row.decision == DueDecision::kBlock) {
      key_fronts_.Appeared(row.order_key, row.point);  // a scheduled one was none of those that waited
    }
  }
  claimed_ = (claiming.pass_sent ? 0 : claimed_) + claimed;
  *fronts_ = claiming.fronts;
  if (!claiming.to_end) {
    *next_due = std::min(*next_due, limits.now + kGoOnIn);
  } else {
    EndPass(limits.now);
  }
}

Status PgParkedLog::Claim(const relay::ClaimLimits& limits, relay::ClaimedChunk* chunk, int64_t* next_due) {
  const size_t before = chunk->events.size();
  if (!found_ && unsure_.empty() && nothing_->For(lane_)) {
    *next_due = relay::kNever;
    return Status();
  }
  Claiming claiming;
  claiming.went_back = limits.now + pg::kSmallStepMicros < latest_;
  if (claiming.went_back) {
    next_recheck_ = next_pass_ = soonest_pass_ = 0;
  }
  claiming.recheck = !unsure_.empty() && limits.now >= next_recheck_;
  BeginPass(limits);
  claiming.pass_sent = claimed_ >= kPassSentAfter;
  claiming.fronts = *fronts_;
  work_->Clear();
  bool owner = true;
  Status status = TryInTransaction([&] { owner = ClaimDue(limits, &claiming, chunk, next_due); });
  OUTBOX_FAULT_POINT("parked.claim.after");
  status = std::move(status).OfOwner(owner);
  if (!status.ok()) {
    chunk->events.resize(before);
    return status;
  }
  chunk->durable_lsn = XactLastCommitEnd;
  Learn(limits, claiming, chunk->events.size() - before, next_due);
  return status;
}

void PgParkedLog::EndPass(int64_t now) {
  if (in_pass_) {
    in_pass_ = false;
    soonest_pass_ = now + kPassShare * (now - pass_began_);
    next_pass_ = std::max(soonest_pass_, now + kPassEvery);
  }
}

// Rows before the fronts are passed over until they may have changed: a topic has come back, an operator has acted on
// parked events (LoadHeld), the clock was set back, or, for any other reason, now and then.
void PgParkedLog::BeginPass(const relay::ClaimLimits& limits) {
  std::vector<std::string> without = limits.without;
  std::sort(without.begin(), without.end());
  const bool still_away = std::includes(without.begin(), without.end(), without_.begin(), without_.end());
  const bool set_back = fronts_->Reach(limits.now - kPgEpochMicros);
  const bool again = limits.now >= next_pass_ || (pass_wanted_ && limits.now >= soonest_pass_);
  if (!still_away || set_back || (again && !in_pass_)) {
    claimed_ = fronts_->moved() ? kPassSentAfter : claimed_;
    *fronts_ = DueFronts();
    key_fronts_.Clear();
    in_pass_ = true;
    pass_wanted_ = false;
    pass_began_ = limits.now;
  }
  without_ = std::move(without);
}

Status PgParkedLog::Settle(std::span<const relay::Settlement> outcomes, std::vector<uint64_t>* freed,
                           int64_t* next_due) {
  bool owner = true;
  const ParkedOwner me{lane_, incarnation_};
  const size_t before = freed->size();
  for (const relay::Settlement& outcome : outcomes) {
    // A scheduled event that was refused waits in created_at order from now on.
    if (outcome.outcome == relay::ParkedOutcome::kRetry) {
      key_fronts_.Appeared(outcome.claimed->order_key, PointOf(outcome));
    }
    if (outcome.outcome == relay::ParkedOutcome::kDead) {
      key_fronts_.DeadAppeared(outcome.claimed->order_key, PointOf(outcome));
    }
  }
  Status status = days::TryWithDayTable(days::DayTableKind::kOutcome, [&](int64 at) {
    bool block = false;
    owner = OwnsLane(me, &block);
    if (!owner) {
      return;
    }
    OUTBOX_FAULT_THROW("parked.settle.before");
    ApplyOutcomes(me, outcomes, at);
    const format::OnFailure policy = block ? format::OnFailure::kBlock : format::OnFailure::kSkip;
    keys_.clear();
    for (const relay::Settlement& outcome : outcomes) {
      // (A refused copy of a replay has no key any more.)
      const bool left = outcome.outcome != relay::ParkedOutcome::kGiveBack &&
                        (outcome.claimed->replay != 0 || !relay::HoldsKey(outcome.outcome, policy));
      if (left && outcome.claimed->order_key != 0) {
        keys_.push_back(outcome.claimed->order_key);
      }
    }
    SortUnique(&keys_);
    // First: what nothing holds has no head to promote, and is not searched for one.
    FindFreed(block, freed);
    std::sort(freed->begin() + static_cast<long>(before), freed->end());
    kept_.clear();
    std::set_difference(keys_.begin(), keys_.end(), freed->begin() + static_cast<long>(before), freed->end(),
                        std::back_inserter(kept_));
    PromoteHeads(lane_.route_id, block, kept_, pg::BelievedWall(), key_fronts_);
    locked_.clear();
    FindHeadless(me, block, kept_, key_fronts_, &locked_);
    *next_due = NextDue(me, without_, *fronts_);
    OUTBOX_FAULT_THROW("parked.settle.uncommitted");
  });
  OUTBOX_FAULT_POINT("parked.settle.after");
  status = std::move(status).OfOwner(owner);
  if (!status.ok()) {
    freed->resize(before);
    return status;
  }
  for (const relay::Settlement& outcome : outcomes) {
    if (std::binary_search(freed->begin() + static_cast<long>(before), freed->end(), outcome.claimed->order_key)) {
      key_fronts_.Emptied(outcome.claimed->order_key, PointOf(outcome));
    }
  }
  DoubtAfter(pg::BelievedWall(), locked_, next_due);
  for (const relay::Settlement& outcome : outcomes) {
    if (outcome.outcome == relay::ParkedOutcome::kDead) {
      dead_->Add(lane_.route_id, outcome.error);
    }
  }
  return status;
}

}  // namespace outbox::parked
