// A parked table that takes events and never gives one back, for tests of something else. What is refused there is dead
// at once, so the route has one attempt (fakes::Spec).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "relay/common/parked_log.h"

namespace outbox::relay::fakes {

class DeadParkedLog : public ParkedLog {
 public:
  Status LoadHeld(format::RecordFormat*, bool, std::vector<uint64_t>*, int64_t*) override { return Status(); }
  Status Park(std::span<const Parking>, int64_t*) override { return Status(); }
  Status Claim(const ClaimLimits&, ClaimedChunk*, int64_t*) override { return Status(); }
  Status Settle(std::span<const Settlement>, std::vector<uint64_t>*, int64_t*) override { return Status(); }
};

}  // namespace outbox::relay::fakes
