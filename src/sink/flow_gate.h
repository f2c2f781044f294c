// Which epochs of which flows a sink still takes [-]: the rule of sink.h ("takes new ones only under a higher epoch").
// Memory: one entry per flow that ever had trouble.
#pragma once

#include <cstdint>
#include <unordered_map>

namespace outbox::sink {

class FlowGate {
 public:
  // Returns false if a record of this epoch of the flow failed or was aborted: abort this one, too.
  bool Admits(uint32_t flow, uint32_t epoch) const {
    auto found = poisoned_.find(flow);
    return found == poisoned_.end() || epoch > found->second;
  }
  // Admits nothing more of this flow until an epoch above `epoch`.
  void Poison(uint32_t flow, uint32_t epoch) {
    auto [entry, fresh] = poisoned_.try_emplace(flow, epoch);
    if (!fresh && entry->second < epoch) {
      entry->second = epoch;
    }
  }

 private:
  std::unordered_map<uint32_t, uint32_t> poisoned_;  // flow -> highest epoch refused
};

}  // namespace outbox::sink
