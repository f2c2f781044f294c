// The key on which an event's order depends, in 64 bits [-]: resolved topic, aggregate type and aggregate id.
//
// Stored in outbox_internal.parked.order_key and computed by lanes and SQL functions alike: the hash IS the identity.
// Two keys that share it (one pair in 2^64) only wait for each other. FNV-1a, 64 bits, over the three values with their
// lengths (offset basis 14695981039346656037, prime 1099511628211; Fowler, Noll, Vo), folded by h ^ (h >> 32). Never
// changed: parked rows hold it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace outbox {

// 0: no key (aggregate_id is NULL), no order.
uint64_t OrderKey(std::string_view topic, std::string_view aggregate_type, std::string_view aggregate_id);

// OrderKey() for many events: remembers the hash of the last event's topic and type.
class OrderKeyer {
 public:
  uint64_t operator()(std::string_view topic, std::string_view aggregate_type, std::string_view aggregate_id);

 private:
  std::string topic_;
  std::string aggregate_type_;
  uint64_t prefix_ = 0;  // 0: none yet
};

}  // namespace outbox
