// Where the memory of a Redis server ends, by what it has answered [P]: what it acknowledged later is lost.
//
// The ids of all streams are one clock, so the last id of all tells, unless the ids of a stream were ahead of that
// clock: it was wrong for a while, or another client has given such an id, after which all ids of the stream are later
// still. So no stream speaks for another that shows its own loss (StreamEnd::lost), and one with ids ahead for none
// that is missing: then our own clock counts, by which it was noted what is there. So it does where the server's clock
// went back, or a replica with a clock that is behind took its place, and the ids of a stream that is missing are older
// than those of what is there for that: it is lost if it was certainly written after all that is there. Survived()
// becomes an id before the first that such a stream has lost, and what was noted long before something that is there is
// not lost, whatever its id.
//
// A stream that nothing was answered about shows no loss: another node of a cluster has it by now, or the answer is too
// large. What it had is lost only where others show that the server's memory ends before it.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "sink/sink.h"

namespace outbox::log {

// Of rows `h` of other runs than $1: those of another process of the server. A run that would not tell what it had
// is noted under its name with a "?" (sink/redis/admission.h). What it acknowledged is there, and says nothing about
// what it came without, in the same streams.
#define OUTBOX_OTHER_PROCESS "rtrim(h.run, '?') <> rtrim($1, '?')"

// A stream that was asked about, with the id of something acknowledged in it, and when that was noted.
struct Sample {
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::min();  // before all times

  int64_t at = 0;            // Postgres microseconds
  int64_t after = kNever;    // it was acknowledged later than this; kNever: not known
  std::string acknowledged;  // stream id
  std::string stream;
};

// Adds it, unless the same entry is there: that was noted when it was noted first. A lane notes again and again what it
// has delivered beyond a gap.
void AddSample(Sample sample, std::vector<Sample>* samples);

struct LostStream {
  const sink::StreamEnd* end;
  bool by_time;  // that is told by nothing but the order in which it was noted
};

struct MemoryEnd {
  static constexpr int64_t kNever = Sample::kNever;
  // Nothing is acknowledged for so long before it is noted: progress is saved before a run is asked.
  static constexpr int64_t kNotedWithin = 10 * INT64_C(60'000'000);

  std::string survived;       // what was acknowledged under a later id is lost
  int64_t there_to = kNever;  // unless it was noted no later than this

  int64_t there = kNever;        // when the newest of the samples that are there was noted
  std::vector<LostStream> lost;  // the streams that have lost something
  bool ahead = false;            // one of them would pass for whole by `survived`
  std::string first;             // scratch: before the first id that one of them has lost
};

MemoryEnd JudgeEnds(std::span<const Sample> samples, std::span<const sink::StreamEnd> ends);

// Lowers `survived` to what the streams in `lost` have kept of what other runs than this one acknowledged, as far as no
// meeting up to number `upto` has shown that to be lost. Plain code: may raise PostgreSQL errors.
void LowerToLost(std::string_view server_run, int64_t upto, MemoryEnd* end);

// Between which moments the server's memory ends, as far as the samples tell; returns false if that is known well
// enough, or nothing is known.
bool FindGap(std::span<const Sample> samples, std::span<const sink::StreamEnd> ends, int64_t* there, int64_t* gone);

}  // namespace outbox::log
