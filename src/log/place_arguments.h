// What a destination says of its places, on its way into a statement [P]. Plain code, like pg/arguments.h.
#pragma once

#include <span>
#include <string_view>

#include "pg/prelude.h"
#include "sink/sink.h"

namespace outbox::log {

// jsonb: {"topic/partition": ["first", "last"]}; of a destination without partitions by topic. No more than 64, the
// one with the highest stream id among them, and "...": how many others.
Datum PlacesDatum(std::span<const sink::Place> places);
// The highest stream id of all places, as StreamIdDatum; false: none has one.
bool AcknowledgedDatum(std::span<const sink::Place> places, Datum* acknowledged);
// int8[] of both numbers of a stream id, which sorts like it. What no clock has reached is held to what fits. False:
// it is none.
bool StreamIdDatum(std::string_view id, Datum* numbers);

}  // namespace outbox::log
