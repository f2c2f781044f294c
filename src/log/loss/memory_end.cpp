#include "log/loss/memory_end.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "log/progress/place_arguments.h"
#include "pg/encoding.h"
#include "pg/sql.h"
#include "sink/places.h"

namespace outbox::log {

using namespace pg::sql;

namespace {

constexpr int64_t kAhead = 5 * USECS_PER_SEC;  // what an id is, of the moment when it was noted
// Nothing is acknowledged for so long before it is noted: progress is saved before a run is asked.
constexpr int64_t kNotedWithin = 10 * USECS_PER_MINUTE;

using Answers = std::unordered_map<std::string_view, const sink::StreamEnd*>;

// The last answer of each stream, about the highest id that was asked of it.
Answers LastAnswers(std::span<const sink::StreamEnd> ends) {
  Answers answers;
  for (const sink::StreamEnd& end : ends) {
    answers[end.stream] = &end;
  }
  return answers;
}

const sink::StreamEnd* AnswerTo(const Sample& sample, const Answers& answers) {
  const auto found = answers.find(sample.stream);
  return found == answers.end() ? nullptr : found->second;
}

bool IsThere(const Sample& sample, const Answers& answers) {
  const sink::StreamEnd* answer = AnswerTo(sample, answers);
  return answer != nullptr && !sink::PlaceBefore(answer->kept, sample.acknowledged);
}

int64_t NewestThere(std::span<const Sample> samples, const Answers& answers) {
  int64_t there = MemoryEnd::kNever;
  for (const Sample& sample : samples) {
    there = IsThere(sample, answers) ? std::max(there, sample.at) : there;
  }
  return there;
}

bool IsAhead(const Sample& sample) {
  sink::StreamId id;
  const auto noted = static_cast<uint64_t>((sample.at + kPgEpochMicros + kAhead) / 1000);
  return sink::ParseStreamId(sample.acknowledged, &id) && id.time > noted;
}

}  // namespace

MemoryEnd JudgeEnds(std::span<const Sample> samples, std::span<const sink::StreamEnd> ends) {
  MemoryEnd judged;
  judged.survived = sink::Survived(ends);
  const Answers answers = LastAnswers(ends);
  judged.there = NewestThere(samples, answers);
  std::unordered_map<std::string_view, int64_t> noted;  // what was asked about
  Answers speaking = answers;                           // for others
  for (const Sample& sample : samples) {
    const sink::StreamEnd* answer = AnswerTo(sample, answers);
    if (answer != nullptr && answer->acknowledged == sample.acknowledged) {
      int64_t& at = noted.try_emplace(sample.stream, sample.at).first->second;
      at = std::max(at, sample.at);
    }
    if (IsAhead(sample)) {
      speaking.erase(sample.stream);
    }
  }
  std::string_view kept;
  for (const auto& [stream, answer] : speaking) {
    kept = sink::PlaceBefore(kept, answer->kept) ? std::string_view(answer->kept) : kept;
  }
  const auto shows_loss = [&](const sink::StreamEnd& end) {
    const auto at = noted.find(end.stream);
    return at != noted.end() &&
           (end.lost || (end.lacking && sink::PlaceBefore(kept, end.acknowledged) && at->second > judged.there));
  };
  for (const auto& [stream, answer] : answers) {
    if (shows_loss(*answer)) {
      judged.lost.push_back(answer);
      judged.ahead |= !sink::PlaceBefore(judged.survived, answer->acknowledged);
    }
  }
  return judged;
}

// A row of progress that has no room for all places is judged as a whole where it may be about such a stream.
void LowerToLost(std::string_view server_run, MemoryEnd* end) {
  if (end->lost.empty() || end->survived == "0-0") {
    return;
  }
#define BEFORE(id)                                                                     \
  "CASE WHEN (" id ")[2] > 0 THEN ARRAY[(" id ")[1], (" id ")[2] - 1] ELSE ARRAY[(" id \
  ")[1] - 1, 9223372036854775807]"                                                     \
  " END"
  static Statement first = {
      "WITH ended AS MATERIALIZED (SELECT e.stream, string_to_array(e.kept, '-')::numeric[] AS kept"
      " FROM ROWS FROM (unnest($2), unnest($3)) e(stream, kept)),"
      " noted AS NOT MATERIALIZED (SELECT g.* FROM outbox_internal.other_periods($1) h"
      " CROSS JOIN LATERAL outbox_internal.survived(h.run, 0, 9223372036854775807) s CROSS JOIN LATERAL"
      " outbox_internal.period_rows(h.route_id, h.lane, h.side, h.run, greatest(h.after, $4), h.upto) g WHERE"
      " outbox_internal.is_lost(g.acknowledged, g.at, s.bound, s.there_to) IS NOT TRUE)"
      " SELECT array_to_string(min(x.id), '-') FROM (SELECT greatest(e.kept, " BEFORE("p.first")
      ") AS id FROM noted g CROSS JOIN LATERAL jsonb_each(g.places) j JOIN ended e ON e.stream = j.key"
      " CROSS JOIN LATERAL (SELECT string_to_array(CASE WHEN (j.value ->> 0) ~ '^[0-9]+-[0-9]+$' THEN j.value ->> 0"
      " ELSE j.value ->> 1 END, '-')::numeric[] AS first, string_to_array(j.value ->> 1, '-')::numeric[] AS last) p"
      " WHERE g.acknowledged IS NOT NULL AND (j.value ->> 1) ~ '^[0-9]+-[0-9]+$' AND p.last > e.kept"
      " UNION ALL SELECT " BEFORE("g.acknowledged::numeric[]")
      " FROM noted g WHERE $5 AND g.acknowledged IS NOT NULL AND g.places ? '...' AND g.at > $6"
      " UNION ALL SELECT greatest(e.kept, " BEFORE("o.acknowledged::numeric[]")
      ") FROM outbox_internal.server_runs($1) h"
      " CROSS JOIN LATERAL outbox_internal.survived(h.run, 0, 9223372036854775807) s CROSS JOIN ended e CROSS JOIN LATERAL"
      " (SELECT o.acknowledged FROM outbox_internal.outcome o WHERE o.run = h.run AND o.topic = e.stream AND o.at > $4"
      " AND o.acknowledged::numeric[] > e.kept"
      " AND outbox_internal.is_lost(o.acknowledged, o.at, s.bound, s.there_to) IS NOT TRUE"
      " ORDER BY o.acknowledged LIMIT 1) o WHERE h.run <> $1) x",
      6,
      {TEXTOID, TEXTARRAYOID, TEXTARRAYOID, TIMESTAMPTZOID, BOOLOID, TIMESTAMPTZOID},
      nullptr};
#undef BEFORE
  Column stream(end->lost.size());
  Column kept(end->lost.size());
  for (const sink::StreamEnd* lost : end->lost) {
    stream.Add(ServerText(lost->stream));
    kept.Add(ForeignText(lost->kept));
  }
  const int64_t since = TIMESTAMP_IS_NOBEGIN(end->there) ? DT_NOBEGIN : end->there - kNotedWithin;
  Datum values[] = {ForeignText(server_run),    stream.Array(TEXTOID),    kept.Array(TEXTOID),
                    TimestampTzGetDatum(since), BoolGetDatum(end->ahead), TimestampTzGetDatum(end->there)};
  RunStatement(&first, values);
  const char* id = ResultText(0, 0);
  end->first.assign(id == nullptr ? "" : id);
  if (!end->first.empty() && sink::PlaceBefore(end->first, end->survived)) {
    end->survived.assign(end->first);
    end->there_to = since;
  }
}

bool FindGap(std::span<const Sample> samples, std::span<const sink::StreamEnd> ends, int64_t* there, int64_t* gone) {
  *there = NewestThere(samples, LastAnswers(ends));
  *gone = PG_INT64_MAX;
  for (const Sample& sample : samples) {
    if (sample.at > *there) {
      *gone = std::min(*gone, sample.at);
    }
  }
  return *there != MemoryEnd::kNever && *gone != PG_INT64_MAX && *gone - *there > USECS_PER_SEC;
}

}  // namespace outbox::log
