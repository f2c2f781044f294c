// What a lane that was put back, by a destination's loss or by seek(), does not send, though it reads it again [P].
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/event.h"
#include "pg/prelude.h"

namespace outbox::log {

// Replaces *settled by which events of the chunk, from `first` on, in ascending order, are not the lane's to send:
// those that are parked, and will be delivered from there; those that people have given up there (skipped, discarded);
// and those that were delivered from there since the route was last moved by seek(), which means everything before to
// go again. Plain; for use under a guard, in a transaction with SPI connected.
void ListSettled(int64_t route_id, const EventChunk& chunk, size_t first, std::vector<size_t>* settled);

// Removes them.
void DropSettled(const std::vector<size_t>& settled, size_t first, EventChunk* chunk);

}  // namespace outbox::log
