// Ordinals: the numbers that a source gives its events, from 0, in the order of reading [-].
#pragma once

#include <cstdint>

namespace outbox::relay {

// Both ends belong to it.
struct OrdinalRange {
  uint64_t first = 0;
  uint64_t last = 0;
};

}  // namespace outbox::relay
