#include "log/loss/memory_end.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "pg/sql.h"
#include "sink/places.h"

namespace outbox::log {

using namespace pg::sql;

namespace {

constexpr int64_t kAhead = 5 * USECS_PER_SEC;  // what an id is, of the moment when it was noted
// Of what two lanes note within so long of each other either may have been written first: a lane notes what it was
// acknowledged four times a second, or later where that fails at first.
constexpr int64_t kNotedSoon = 10 * USECS_PER_SEC;

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

// One that is lacking is lost: Survived() has come to where the memory ends.
bool ShowsLoss(std::span<const sink::StreamEnd> ends, const std::string& survived) {
  return std::any_of(ends.begin(), ends.end(), [&survived](const sink::StreamEnd& end) {
    return end.lacking && sink::PlaceBefore(survived, end.acknowledged);
  });
}

// When all that is there was noted, at the latest: where a stream has lost its end, when the first was noted that is
// not there.
int64_t AllNotedBy(std::span<const Sample> samples, const Answers& answers) {
  struct Noted {
    int64_t there = MemoryEnd::kNever;
    int64_t gone = PG_INT64_MAX;
    bool end = false;  // the newest that is there is among the samples
  };
  std::unordered_map<std::string_view, Noted> noted;
  for (const Sample& sample : samples) {
    const sink::StreamEnd* answer = AnswerTo(sample, answers);
    if (answer == nullptr || !sink::PlaceBefore("0-0", answer->kept)) {
      continue;
    }
    Noted& of_stream = noted[sample.stream];
    of_stream.end |= answer->kept == sample.acknowledged;
    if (IsThere(sample, answers)) {
      of_stream.there = std::max(of_stream.there, sample.at);
    } else {
      of_stream.gone = std::min(of_stream.gone, sample.at);
    }
  }
  int64_t all = MemoryEnd::kNever;
  for (const auto& [stream, times] : noted) {
    all = std::max(all, times.end || times.gone == PG_INT64_MAX ? times.there : times.gone);
  }
  return all;
}

bool IsAhead(const Sample& sample) {
  sink::StreamId id;
  const auto noted = static_cast<uint64_t>((sample.at + kPgEpochMicros + kAhead) / 1000);
  return sink::ParseStreamId(sample.acknowledged, &id) && id.time > noted;
}

}  // namespace

void AddSample(Sample sample, std::vector<Sample>* samples) {
  const auto same = std::find_if(samples->begin(), samples->end(), [&](const Sample& other) {
    return other.acknowledged == sample.acknowledged && other.stream == sample.stream;
  });
  if (same == samples->end()) {
    samples->push_back(std::move(sample));
    return;
  }
  same->at = std::min(same->at, sample.at);
  same->after = std::max(same->after, sample.after);
}

MemoryEnd JudgeEnds(std::span<const Sample> samples, std::span<const sink::StreamEnd> ends) {
  MemoryEnd judged;
  judged.survived = sink::Survived(ends);
  const bool shows_loss = ShowsLoss(ends, judged.survived);
  const Answers answers = LastAnswers(ends);
  judged.there = NewestThere(samples, answers);
  const int64_t all_noted_by = AllNotedBy(samples, answers);
  std::unordered_map<std::string_view, const Sample*> noted;  // what was asked about
  Answers speaking = answers;                                 // for others
  for (const Sample& sample : samples) {
    const sink::StreamEnd* answer = AnswerTo(sample, answers);
    if (answer != nullptr && answer->acknowledged == sample.acknowledged) {
      noted[sample.stream] = &sample;
    }
    if (IsAhead(sample)) {
      speaking.erase(sample.stream);
    }
    if (answer == nullptr && !shows_loss && sink::PlaceBefore(judged.survived, sample.acknowledged)) {
      judged.survived = sample.acknowledged;
    }
  }
  std::string_view kept;
  for (const auto& [stream, answer] : speaking) {
    kept = sink::PlaceBefore(kept, answer->kept) ? std::string_view(answer->kept) : kept;
  }
  const auto written_last = [&](const Sample& sample) {
    return all_noted_by == MemoryEnd::kNever || sample.after >= all_noted_by || sample.at - kNotedSoon > all_noted_by;
  };
  for (const auto& [stream, answer] : answers) {
    const auto found = noted.find(stream);
    if (found == noted.end()) {
      continue;
    }
    const bool may_be = answer->lacking && found->second->at > judged.there;
    const bool by_id = answer->lost || (may_be && sink::PlaceBefore(kept, answer->acknowledged));
    if (by_id || (may_be && written_last(*found->second))) {
      judged.lost.push_back({answer, !by_id});
      judged.ahead |= !sink::PlaceBefore(judged.survived, answer->acknowledged);
    }
  }
  return judged;
}

// A row of progress that has no room for all places is judged as a whole where it may be about such a stream. Where
// nothing but the order of noting tells of a loss that is news, all counts as lost that was noted later than what is
// there, though nobody asked about its stream; and what was noted shortly before, for another lane may have noted it.
void LowerToLost(std::string_view server_run, int64_t upto, MemoryEnd* end) {
  if (end->lost.empty() || end->survived == "0-0") {
    return;
  }
#define BEFORE(id)                                                                     \
  "CASE WHEN (" id ")[2] > 0 THEN ARRAY[(" id ")[1], (" id ")[2] - 1] ELSE ARRAY[(" id \
  ")[1] - 1, 9223372036854775807]"                                                     \
  " END"
  static Statement first = {
      "WITH ended AS MATERIALIZED (SELECT e.stream, string_to_array(e.kept, '-')::numeric[] AS kept, e.by_time"
      " FROM ROWS FROM (unnest($2), unnest($3), unnest($7)) e(stream, kept, by_time)),"
      " noted AS NOT MATERIALIZED (SELECT g.* FROM outbox_internal.other_periods($1) h"
      " CROSS JOIN LATERAL outbox_internal.survived(h.run, 0, $9) s CROSS JOIN LATERAL"
      " outbox_internal.period_rows(h.route_id, h.lane, h.side, h.run, greatest(h.after, $4), h.upto) g WHERE "
      OUTBOX_OTHER_PROCESS " AND outbox_internal.is_lost(g.acknowledged, g.at, s.bound, s.there_to) IS NOT TRUE),"
      " lost AS MATERIALIZED (SELECT greatest(e.kept, " BEFORE("p.first")
      ") AS id, e.by_time FROM noted g CROSS JOIN LATERAL jsonb_each(g.places) j JOIN ended e ON e.stream = j.key"
      " CROSS JOIN LATERAL (SELECT string_to_array(CASE WHEN (j.value ->> 0) ~ '^[0-9]+-[0-9]+$' THEN j.value ->> 0"
      " ELSE j.value ->> 1 END, '-')::numeric[] AS first, string_to_array(j.value ->> 1, '-')::numeric[] AS last) p"
      " WHERE g.acknowledged IS NOT NULL AND (j.value ->> 1) ~ '^[0-9]+-[0-9]+$' AND p.last > e.kept"
      " UNION ALL SELECT greatest(e.kept, " BEFORE("o.acknowledged::numeric[]")
      "), e.by_time FROM outbox_internal.server_runs($1) h"
      " CROSS JOIN LATERAL outbox_internal.survived(h.run, 0, $9) s CROSS JOIN ended e CROSS JOIN LATERAL"
      " (SELECT o.acknowledged FROM outbox_internal.outcome o WHERE o.run = h.run AND o.topic = e.stream AND o.at > $4"
      " AND o.acknowledged::numeric[] > e.kept"
      " AND outbox_internal.is_lost(o.acknowledged, o.at, s.bound, s.there_to) IS NOT TRUE"
      " ORDER BY o.acknowledged LIMIT 1) o WHERE " OUTBOX_OTHER_PROCESS ")"
      " SELECT array_to_string(min(x.id), '-') FROM (SELECT l.id FROM lost l"
      " UNION ALL SELECT " BEFORE("g.acknowledged::numeric[]")
      " FROM noted g WHERE $5 AND g.acknowledged IS NOT NULL AND g.places ? '...' AND g.at > $6"
      " UNION ALL SELECT " BEFORE("g.acknowledged::numeric[]")
      " FROM noted g WHERE g.acknowledged IS NOT NULL AND g.at > $8 AND EXISTS (SELECT FROM lost l WHERE l.by_time)"
      " UNION ALL SELECT " BEFORE("o.acknowledged::numeric[]")
      " FROM outbox_internal.server_runs($1) h"
      " CROSS JOIN LATERAL outbox_internal.survived(h.run, 0, $9) s CROSS JOIN LATERAL"
      " (SELECT o.acknowledged FROM outbox_internal.outcome o WHERE o.run = h.run AND o.at > $8"
      " AND o.acknowledged IS NOT NULL"
      " AND outbox_internal.is_lost(o.acknowledged, o.at, s.bound, s.there_to) IS NOT TRUE"
      " ORDER BY o.acknowledged LIMIT 1) o WHERE " OUTBOX_OTHER_PROCESS " AND EXISTS (SELECT FROM lost l WHERE l.by_time)) x",
      9,
      {TEXTOID, TEXTARRAYOID, TEXTARRAYOID, TIMESTAMPTZOID, BOOLOID, TIMESTAMPTZOID, BOOLARRAYOID, TIMESTAMPTZOID,
       INT8OID},
      nullptr};
#undef BEFORE
  Column stream(end->lost.size());
  Column kept(end->lost.size());
  Column by_time(end->lost.size());
  for (const LostStream& lost : end->lost) {
    stream.Add(ServerText(lost.end->stream));
    kept.Add(ForeignText(lost.end->kept));
    by_time.Add(BoolGetDatum(lost.by_time));
  }
  const auto before_there = [end](int64_t micros) {
    return TIMESTAMP_IS_NOBEGIN(end->there) ? DT_NOBEGIN : end->there - micros;
  };
  const int64_t since = before_there(MemoryEnd::kNotedWithin);
  Datum values[] = {ForeignText(server_run),  stream.Array(TEXTOID),
                    kept.Array(TEXTOID),      TimestampTzGetDatum(since),
                    BoolGetDatum(end->ahead), TimestampTzGetDatum(end->there),
                    by_time.Array(BOOLOID),   TimestampTzGetDatum(before_there(kNotedSoon)),
                    Int64GetDatum(upto)};
  RunStatement(&first, values);
  const char* id = ResultText(0, 0);
  end->first.assign(id == nullptr ? "" : id);
  if (!end->first.empty() && sink::PlaceBefore(end->first, end->survived)) {
    end->survived.assign(end->first);
    end->there_to = since;
  }
}

bool FindGap(std::span<const Sample> samples, std::span<const sink::StreamEnd> ends, int64_t* there, int64_t* gone) {
  const Answers answers = LastAnswers(ends);
  *there = NewestThere(samples, answers);
  *gone = PG_INT64_MAX;
  for (const Sample& sample : samples) {
    if (sample.at > *there && AnswerTo(sample, answers) != nullptr) {
      *gone = std::min(*gone, sample.at);
    }
  }
  return *there != MemoryEnd::kNever && *gone != PG_INT64_MAX && *gone - *there > USECS_PER_SEC;
}

}  // namespace outbox::log
