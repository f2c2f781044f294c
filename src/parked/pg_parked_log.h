// relay::ParkedLog over outbox_internal.parked [P behind, no Postgres type in sight]: the parked events of one lane,
// for its owner. For use in a relay worker only, like PgLaneLog. The rules of what may be sent are in statements.h;
// every statement goes by index, however much is parked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/lane_id.h"
#include "parked/dead_letter_count.h"
#include "parked/erasures.h"
#include "parked/key_fronts.h"
#include "parked/nothing_parked.h"
#include "relay/common/parked_log.h"

namespace outbox::parked {

struct DueFronts;
struct DueWork;

class PgParkedLog final : public relay::ParkedLog {
 public:
  // `incarnation`: the worker's, as outbox_internal.lane.owner holds it. `dead` counts what becomes a dead letter here.
  // `nothing` and `erasures`: of the worker, for all its lanes. All outlive the log.
  PgParkedLog(const LaneId& lane, uint64_t incarnation, DeadLetters* dead, NothingParked* nothing,
              const Erasures* erasures);
  ~PgParkedLog() override;
  PgParkedLog(const PgParkedLog&) = delete;
  PgParkedLog& operator=(const PgParkedLog&) = delete;

  Status LoadHeld(format::RecordFormat* format, bool renamed, std::vector<uint64_t>* keys, int64_t* next_due) override;
  Status Park(std::span<const relay::Parking> events, int64_t* next_due) override;
  Status Claim(const relay::ClaimLimits& limits, relay::ClaimedChunk* chunk, int64_t* next_due) override;
  Status Settle(std::span<const relay::Settlement> outcomes, std::vector<uint64_t>* freed, int64_t* next_due) override;

 private:
  struct Claiming;
  bool ClaimDue(const relay::ClaimLimits& limits, Claiming* claiming, relay::ClaimedChunk* chunk, int64_t* next_due);
  void Learn(const relay::ClaimLimits& limits, const Claiming& claiming, size_t claimed, int64_t* next_due);
  void Recheck(bool block, int64_t now);
  void BeginPass(const relay::ClaimLimits& limits);
  void EndPass(int64_t now);
  bool ReadWork(const relay::ClaimLimits& limits, bool block, DueFronts* fronts);
  void KeepLocked(int64_t now);
  void Doubt(const std::vector<uint64_t>& keys);
  void DoubtAfter(int64_t now, const std::vector<uint64_t>& keys, int64_t* next_due);
  void FindFreed(bool block, std::vector<uint64_t>* freed);

  const LaneId lane_;
  const uint64_t incarnation_;
  DeadLetters* const dead_;
  NothingParked* const nothing_;
  const Erasures* const erasures_;
  bool loaded_ = false;
  bool found_ = true;                 // the last claim found something: most likely there is more
  std::vector<std::string> without_;  // of the last claim, sorted
  std::unique_ptr<DueFronts> fronts_;
  KeyFronts key_fronts_;
  size_t claimed_ = 0;    // events, since the fronts were moved up to what is left
  bool in_pass_ = false;  // the fronts have started over and not reached the end
  bool pass_wanted_ = false;
  int64_t latest_ = 0;      // that a claim was made at, since the clock went back
  int64_t pass_began_ = 0;  // Unix microseconds, all of these
  int64_t soonest_pass_ = 0;
  int64_t next_pass_ = 0;
  std::vector<uint64_t> unsure_;  // keys that may have lost their head unnoticed, ascending
  int64_t next_recheck_ = 0;      // Unix microseconds
  std::vector<uint64_t> keys_;    // scratch, all of these
  std::vector<uint64_t> locked_;
  std::vector<uint64_t> kept_;
  std::unique_ptr<DueWork> work_;
};

}  // namespace outbox::parked
