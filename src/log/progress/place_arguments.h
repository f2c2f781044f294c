// Places that a destination reported, as arguments of a statement [P]. Plain code, like pg/statement_arguments.h.
#pragma once

#include <span>
#include <string_view>

#include "pg/prelude.h"
#include "sink/sink.h"

namespace outbox::log {

// jsonb: {"topic/partition": ["first", "last"]}; for a destination without partitions by topic. No more than 64, the
// one with the highest stream id among them, and "...": how many others.
Datum PlacesDatum(std::span<const sink::Place> places);
// The highest stream id of all places, as StreamIdDatum; returns false if none has one.
bool AcknowledgedDatum(std::span<const sink::Place> places, Datum* acknowledged);
// int8[] of both numbers of a stream id, which sorts like it. Numbers that no clock has reached are capped to what
// fits. Returns false if the text is no stream id.
bool StreamIdDatum(std::string_view id, Datum* numbers);

}  // namespace outbox::log
