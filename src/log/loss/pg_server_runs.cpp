#include "log/loss/pg_server_runs.h"

#include <algorithm>

#include "log/progress/place_arguments.h"
#include "log/window/row.h"
#include "pg/encoding.h"
#include "pg/sql.h"
#include "sink/places.h"

namespace outbox::log {

using namespace pg::sql;

namespace {

// The newest rows of each lane under each run: a minute of a busy lane, days of a quiet one. Each answer has two whole
// entries of the stream, hence no more of them than tell how far the server's memory goes.
#define NEWEST_ROWS "200"
#define MOST_STREAMS "100"
#define MOST_PERIODS "64"    // about one moment; others of it tell the same
constexpr int kPoints = 48;  // of one question between two moments

// The relations are schema/29_server_runs.sql's. outbox_internal.other_periods($1) and, of parked events,
// outbox_internal.server_runs($1): what other runs than $1 at its address acknowledged, also to lanes that write
// elsewhere by now, or have been dropped.

// Of the run that is the one met last at its address. `upto`: number of the meetings that have shown what is lost; of
// this one only if it has shown a loss.
struct Meeting {
  bool recorded = false;
  bool whole = false;
  int64_t upto = PG_INT64_MAX;
};

Meeting ReadMeeting(std::string_view server_run) {
  static Statement look = {
      "SELECT m.number, k.noted_to IS NOT NULL FROM outbox_internal.newest_run($1) m JOIN outbox_internal.server_run k "
      "ON k.run = m.run"
      " WHERE m.run = $1",
      1,
      {TEXTOID},
      nullptr};
  Datum values[] = {ForeignText(server_run)};
  RunStatement(&look, values);
  Meeting meeting;
  meeting.recorded = SPI_processed > 0;
  meeting.whole = meeting.recorded && ResultBool(0, 1);
  meeting.upto = meeting.whole ? ResultInt64(0, 0) - 1 : PG_INT64_MAX;
  return meeting;
}

// outbox_internal.server_run.survived speaks for what was noted when the run was asked. Another worker may have noted
// more since, under an earlier run; and some of it with a time from before: it was not committed yet.
#define AHEAD(row) row ".acknowledged[1] > (extract(epoch FROM " row ".at) + 5) * 1000"

bool NotedSince(std::string_view server_run) {
  static Statement any = {
      "WITH k AS MATERIALIZED (SELECT string_to_array(m.survived, '-')::int8[] AS survived, m.noted_to"
      " FROM outbox_internal.server_run m WHERE m.run = $1)"
      " SELECT FROM k CROSS JOIN outbox_internal.other_periods($1) h CROSS JOIN LATERAL (SELECT g.at, g.acknowledged FROM"
      " outbox_internal.period_rows(h.route_id, h.lane, h.side, h.run, h.after, h.upto) g"
      " WHERE g.acknowledged IS NOT NULL ORDER BY g.at DESC LIMIT 10) g"
      " WHERE g.at > k.noted_to OR (g.acknowledged > k.survived AND NOT " AHEAD("g") ")"
      " UNION ALL SELECT FROM k CROSS JOIN outbox_internal.server_runs($1) h CROSS JOIN LATERAL (SELECT FROM"
      " outbox_internal.outcome o WHERE o.run = h.run AND o.acknowledged > k.survived"
      " AND (o.at > k.noted_to OR NOT " AHEAD("o") ") LIMIT 1) o WHERE h.run <> $1 LIMIT 1",
      1,
      {TEXTOID},
      nullptr};
  Datum values[] = {ForeignText(server_run)};
  RunStatement(&any, values);
  return SPI_processed > 0;
}

// What is noted by now. Ids that are ahead of the clock would speak for what is written long after.
void ReadNoted(std::string_view server_run, Noted* noted) {
  static Statement read = {
      "SELECT array_to_string(coalesce(max(n.acknowledged) FILTER (WHERE NOT " AHEAD("n") "), '{0,0}'), '-'), max(n.at),"
      " coalesce(bool_or(" AHEAD("n") "), false), coalesce(array_to_string(max(n.acknowledged) FILTER (WHERE NOT "
      AHEAD("n") " AND NOT n.other), '-'), '') FROM (SELECT g.at, g.acknowledged, " OUTBOX_OTHER_PROCESS " AS other FROM"
      " outbox_internal.other_periods($1) h CROSS JOIN LATERAL (SELECT g.at, g.acknowledged FROM"
      " outbox_internal.period_rows(h.route_id, h.lane, h.side, h.run, h.after, h.upto) g"
      " WHERE g.acknowledged IS NOT NULL ORDER BY g.at DESC LIMIT " NEWEST_ROWS
      ") g UNION ALL SELECT o.at, o.acknowledged, " OUTBOX_OTHER_PROCESS
      " FROM outbox_internal.server_runs($1) h CROSS JOIN LATERAL"
      " (SELECT o.at, o.acknowledged FROM outbox_internal.outcome o WHERE o.run = h.run AND o.acknowledged IS NOT NULL"
      " ORDER BY o.acknowledged DESC LIMIT " NEWEST_ROWS ") o WHERE h.run <> $1) n",
      1,
      {TEXTOID},
      nullptr};
  Datum values[] = {ForeignText(server_run)};
  RunStatement(&read, values);
  noted->id.assign(ResultText(0, 0));
  bool none = false;
  Datum at = ResultDatum(0, 1, &none);
  noted->any = !none;
  noted->at = none ? MemoryEnd::kNever : DatumGetTimestampTz(at);
  noted->ahead = ResultBool(0, 2);
  noted->own.assign(ResultText(0, 3));
}
#undef AHEAD

// Whether that shows a loss which no meeting up to that one has shown. What routes delivered that were dropped since is
// not sent again (drop_route() says so).
bool AnyNewsIn(std::string_view server_run, const Meeting& meeting, const MemoryEnd& end) {
  static Statement any = {
      "SELECT FROM outbox_internal.other_periods($1) h CROSS JOIN LATERAL outbox_internal.survived(h.run, 0, $4) s"
      " CROSS JOIN LATERAL (SELECT g.at, g.acknowledged FROM"
      " outbox_internal.period_rows(h.route_id, h.lane, h.side, h.run, h.after, h.upto) g"
      " WHERE g.acknowledged IS NOT NULL ORDER BY g.at DESC LIMIT 10) g"
      " WHERE " OUTBOX_OTHER_PROCESS
      " AND outbox_internal.is_lost(g.acknowledged, g.at, $2, $3)"
      " AND outbox_internal.is_lost(g.acknowledged, g.at, s.bound, s.there_to) IS NOT TRUE"
      " AND EXISTS (SELECT FROM outbox.route r WHERE r.id = h.route_id)"
      " UNION ALL SELECT FROM outbox_internal.server_runs($1) h"
      " CROSS JOIN LATERAL outbox_internal.survived(h.run, 0, $4) s"
      " CROSS JOIN LATERAL (SELECT FROM outbox_internal.outcome o WHERE o.run = h.run AND o.acknowledged > $2"
      " AND o.at > $3 AND outbox_internal.is_lost(o.acknowledged, o.at, s.bound, s.there_to) IS NOT TRUE LIMIT 1) o"
      " WHERE " OUTBOX_OTHER_PROCESS " LIMIT 1",
      4,
      {TEXTOID, INT8ARRAYOID, TIMESTAMPTZOID, INT8OID},
      nullptr};
  Datum survived = 0;
  if (!StreamIdDatum(end.survived, &survived)) {
    return false;  // it tells nothing, so nothing is lost
  }
  Datum values[] = {ForeignText(server_run), survived, TimestampTzGetDatum(end.there_to), Int64GetDatum(meeting.upto)};
  RunStatement(&any, values);
  return SPI_processed > 0;
}

bool AnyOtherRun(std::string_view server_run) {
  static Statement any = {
      "SELECT FROM outbox_internal.server_runs($1) m WHERE m.run <> $1 LIMIT 1", 1, {TEXTOID}, nullptr};
  Datum values[] = {ForeignText(server_run)};
  RunStatement(&any, values);
  return SPI_processed > 0;
}

// From rows of (at, acknowledged, stream, after).
void AddSamples(std::vector<Sample>* samples) {
  for (uint64 row = 0; row < SPI_processed; row++) {
    bool isnull = false;
    Sample& sample = samples->emplace_back();
    sample.at = DatumGetTimestampTz(ResultDatum(row, 0, &isnull));
    sample.acknowledged.assign(ResultText(row, 1));
    sample.stream = pg::Utf8(ResultText(row, 2));
    sample.after = DatumGetTimestampTz(ResultDatum(row, 3, &isnull));
  }
}

// Of each lane the newest id in each stream, of a stream the highest: one lane may save an older one after another lane
// a younger one. An older row of the lane has a higher one only where the stream was deleted since, and made again.
// What was acknowledged when the row before was written is in that row.
void ReadNewest(std::string_view server_run, std::vector<Sample>* samples) {
  static Statement newest = {
      "SELECT n.at, n.id, n.key, n.after FROM (SELECT DISTINCT ON (l.key) l.* FROM"
      " (SELECT DISTINCT ON (h.route_id, h.lane, h.side, h.upto, e.key) e.key, min(g.at) OVER noted AS at,"
      " min(g.after) OVER noted AS after, e.value ->> 1 AS id"
      " FROM outbox_internal.other_periods($1) h CROSS JOIN LATERAL (SELECT g.at, g.places,"
      " lag(g.at, 1, h.after) OVER (ORDER BY g.at) AS after FROM (SELECT g.at, g.places FROM"
      " outbox_internal.period_rows(h.route_id, h.lane, h.side, h.run, h.after, h.upto) g ORDER BY g.at DESC "
      "LIMIT " NEWEST_ROWS ") g) g CROSS JOIN LATERAL jsonb_each(g.places) e WHERE " OUTBOX_OTHER_PROCESS
      " AND (e.value ->> 1) ~ '^[0-9]+-[0-9]+$'"
      " WINDOW noted AS (PARTITION BY h.route_id, h.lane, h.side, h.upto, e.key, e.value ->> 1)"
      " ORDER BY h.route_id, h.lane, h.side, h.upto, e.key, g.at DESC) l"
      " ORDER BY l.key, string_to_array(l.id, '-')::numeric[] DESC) n ORDER BY n.at DESC LIMIT " MOST_STREAMS,
      1,
      {TEXTOID},
      nullptr};
  Datum values[] = {ForeignText(server_run)};
  RunStatement(&newest, values);
  AddSamples(samples);
}

// The streams that parked events went to last, as samples.
void ReadNewestParked(std::string_view server_run, std::vector<Sample>* samples) {
  static Statement newest = {
      "SELECT max(n.at), array_to_string(max(n.acknowledged), '-'), n.topic, '-infinity'::timestamptz FROM "
      "outbox_internal.server_runs($1) h"
      " CROSS JOIN LATERAL (SELECT o.at, o.acknowledged, o.topic FROM outbox_internal.outcome o WHERE o.run = h.run"
      " AND o.acknowledged IS NOT NULL ORDER BY o.acknowledged DESC LIMIT " NEWEST_ROWS
      ") n WHERE " OUTBOX_OTHER_PROCESS " GROUP BY n.topic ORDER BY max(n.acknowledged) DESC LIMIT " MOST_STREAMS,
      1,
      {TEXTOID},
      nullptr};
  Datum values[] = {ForeignText(server_run)};
  RunStatement(&newest, values);
  AddSamples(samples);
}

// The parked event that was acknowledged last before each of these moments, about: by the server's clock.
void ReadParkedSamples(std::string_view server_run, std::span<const int64> points, std::vector<Sample>* samples) {
  static Statement at_points = {
      "SELECT DISTINCT n.at, array_to_string(n.acknowledged, '-'), n.topic, '-infinity'::timestamptz FROM unnest($2) "
      "p(time)"
      " CROSS JOIN LATERAL (SELECT o.at, o.acknowledged, o.topic FROM outbox_internal.server_runs($1) h"
      " CROSS JOIN LATERAL (SELECT o.at, o.acknowledged, o.topic FROM outbox_internal.outcome o WHERE o.run = h.run"
      " AND o.acknowledged <= ARRAY[p.time, 9223372036854775807] ORDER BY o.acknowledged DESC LIMIT 1) o"
      " WHERE " OUTBOX_OTHER_PROCESS " ORDER BY o.acknowledged DESC LIMIT 1) n",
      2,
      {TEXTOID, INT8ARRAYOID},
      nullptr};
  Column times(points.size());
  for (int64 point : points) {
    times.Add(Int64GetDatum((point + kPgEpochMicros) / 1000));
  }
  Datum values[] = {ForeignText(server_run), times.Array(INT8OID)};
  RunStatement(&at_points, values);
  AddSamples(samples);
}

// The newest and the oldest moment at which it was noted what was acknowledged; false: there is none.
bool ReadBounds(std::string_view server_run, int64* newest, int64* oldest) {
  static Statement bounds = {
      "SELECT max(b.newest), min(b.oldest) FROM (SELECT n.at AS newest, o.at AS oldest"
      " FROM outbox_internal.other_periods($1) h"
      " CROSS JOIN LATERAL (SELECT g.at FROM outbox_internal.period_rows(h.route_id, h.lane, h.side, h.run, h.after, "
      "h.upto) g"
      " WHERE g.acknowledged IS NOT NULL ORDER BY g.at DESC LIMIT 1) n"
      " CROSS JOIN LATERAL (SELECT g.at FROM outbox_internal.period_rows(h.route_id, h.lane, h.side, h.run, h.after, "
      "h.upto) g"
      " WHERE g.acknowledged IS NOT NULL ORDER BY g.at LIMIT 1) o WHERE " OUTBOX_OTHER_PROCESS
      " UNION ALL SELECT n.at, o.at FROM outbox_internal.server_runs($1) h"
      " CROSS JOIN LATERAL (SELECT o.at FROM outbox_internal.outcome o WHERE o.run = h.run AND o.acknowledged IS NOT "
      "NULL"
      " ORDER BY o.acknowledged DESC LIMIT 1) n"
      " CROSS JOIN LATERAL (SELECT o.at FROM outbox_internal.outcome o WHERE o.run = h.run AND o.acknowledged IS NOT "
      "NULL"
      " ORDER BY o.acknowledged LIMIT 1) o WHERE " OUTBOX_OTHER_PROCESS ") b",
      1,
      {TEXTOID},
      nullptr};
  Datum values[] = {ForeignText(server_run)};
  RunStatement(&bounds, values);
  bool none = SPI_processed == 0;
  if (!none) {
    *newest = DatumGetTimestampTz(ResultDatum(0, 0, &none));
  }
  if (!none) {
    *oldest = DatumGetTimestampTz(ResultDatum(0, 1, &none));
  }
  return !none;
}

// What was acknowledged last before each of these moments, to any lane.
void ReadSamples(std::string_view server_run, std::span<const int64> points, std::vector<Sample>* samples) {
  static Statement at_points = {
      "WITH here AS MATERIALIZED (SELECT * FROM outbox_internal.other_periods($1) h WHERE " OUTBOX_OTHER_PROCESS
      ")"
      " SELECT DISTINCT n.at, array_to_string(n.acknowledged, '-'), e.key, '-infinity'::timestamptz"
      " FROM unnest($2::timestamptz[]) p(point) CROSS JOIN LATERAL"
      " (SELECT g.at, g.acknowledged, g.places FROM (SELECT * FROM here h WHERE h.after < p.point"
      " ORDER BY least(h.upto, p.point) DESC LIMIT " MOST_PERIODS
      ") h CROSS JOIN LATERAL (SELECT g.at, g.acknowledged, g.places FROM"
      " outbox_internal.period_rows(h.route_id, h.lane, h.side, h.run, h.after, h.upto) g"
      " WHERE g.at <= p.point AND g.acknowledged IS NOT NULL ORDER BY g.at DESC LIMIT 1) g"
      " ORDER BY g.at DESC LIMIT 1) n"
      " CROSS JOIN LATERAL jsonb_each(n.places) e WHERE (e.value ->> 1)"
      " = array_to_string(n.acknowledged, '-')",
      2,
      {TEXTOID, TIMESTAMPTZARRAYOID},
      nullptr};
  Column moments(points.size());
  for (int64 point : points) {
    moments.Add(TimestampTzGetDatum(point));
  }
  Datum values[] = {ForeignText(server_run), moments.Array(TIMESTAMPTZOID)};
  RunStatement(&at_points, values);
  AddSamples(samples);
}

// A stream is asked about by the highest id that is known: whether that is there tells of all before.
void AskAbout(const Sample& sample, std::span<const sink::StreamEnd> ends, std::vector<sink::AskedStream>* streams) {
  const auto known = [&](const sink::StreamEnd& end) {
    return end.stream == sample.stream && !sink::PlaceBefore(end.acknowledged, sample.acknowledged);
  };
  if (std::any_of(ends.begin(), ends.end(), known)) {
    return;
  }
  const auto asked = std::find_if(streams->begin(), streams->end(),
                                  [&](const sink::AskedStream& one) { return one.stream == sample.stream; });
  if (asked == streams->end()) {
    streams->push_back({sample.stream, sample.acknowledged});
  } else if (sink::PlaceBefore(asked->acknowledged, sample.acknowledged)) {
    asked->acknowledged = sample.acknowledged;
  }
}

}  // namespace

Status PgServerRuns::Streams(const std::string& server_run, std::span<const sink::StreamEnd> ends,
                             std::vector<sink::AskedStream>* streams) {
  streams->clear();
  if (ends.empty()) {
    samples_.clear();
    noted_ = {};
  }
  int64 points[kPoints];
  size_t count = 0;
  std::vector<Sample> found;
  int64 there = 0;
  int64 gone = 0;
  if (!ends.empty()) {
    if (!FindGap(samples_, ends, &there, &gone)) {
      return Status();
    }
    for (int i = 1; i < kPoints; i++) {
      points[count++] = there + (gone - there) / kPoints * i;
    }
  }
  Status status = TryInTransaction([&] {
    if (ends.empty()) {
      const Meeting meeting = ReadMeeting(server_run);
      noted_.covered = meeting.recorded && !(meeting.whole && NotedSince(server_run));
      if (noted_.covered) {
        return;
      }
      ReadNoted(server_run, &noted_);  // before what is asked about: that may be more
      ReadNewest(server_run, &found);
      ReadNewestParked(server_run, &found);
      if (!ReadBounds(server_run, &gone, &there)) {
        return;
      }
      points[count++] = gone;
      for (int64 back = USECS_PER_SEC; count < kPoints - 1 && gone - back > there; back *= 2) {
        points[count++] = gone - back;
      }
      points[count++] = there;
    }
    ReadSamples(server_run, {points, count}, &found);
    ReadParkedSamples(server_run, {points, count}, &found);
  });
  if (!status.ok()) {
    return status;
  }
  for (Sample& sample : found) {
    AskAbout(sample, ends, streams);
    AddSample(std::move(sample), &samples_);
  }
  return status;
}

// What an earlier check has shown to be lost is no news.
Status PgServerRuns::Lost(const std::string& server_run, std::span<const sink::StreamEnd> ends, bool* lost) {
  *lost = false;
  MemoryEnd end = JudgeEnds(samples_, ends);
  return TryInTransaction([&] {
    const Meeting meeting = ReadMeeting(server_run);
    LowerToLost(server_run, meeting.upto, &end);
    *lost = AnyNewsIn(server_run, meeting, end);
  });
}

// What is recorded of a run that has lost nothing goes up with what it is asked about, and no further than that. What
// its process acknowledged before it could be asked is there.
void PgServerRuns::LimitToNoted(MemoryEnd* end) const {
  if (sink::PlaceBefore(noted_.id, end->survived)) {
    end->survived = noted_.id;
  }
  if (sink::PlaceBefore(end->survived, noted_.own)) {
    end->survived = noted_.own;
  }
  if (end->there_to == MemoryEnd::kNever && noted_.any) {
    end->there_to = noted_.ahead ? noted_.at : noted_.at - MemoryEnd::kNotedWithin;
  }
}

Status PgServerRuns::Record(const std::string& server_run, std::span<const sink::StreamEnd> ends) {
  MemoryEnd end = JudgeEnds(samples_, ends);
  return TryInTransaction([&] {
    // A run may go on for years after it was met: so the last one at an address stays, those that delivered what is
    // still in outbox_internal.outcome, and all that came behind them, for without these it would not be known what was
    // met later.
    static Statement sweep = {
        "DELETE FROM outbox_internal.server_run m WHERE m.met_at < now() - '90 days'::interval AND m.number <"
        " (SELECT min(k.number) FROM outbox_internal.server_runs(m.run) k WHERE k.met_at >= now() - '90 days'::interval"
        " OR EXISTS (SELECT FROM outbox_internal.outcome o WHERE o.run = k.run)"
        " OR NOT EXISTS (SELECT FROM outbox_internal.server_runs(m.run) n WHERE n.number > k.number))",
        0,
        {},
        nullptr};
    // A row that another worker has just written has the same number and stays; one written before another run was met
    // is renewed. Where nothing was noted, what is noted later is spoken for by nothing; nothing ever was under a first
    // run.
    static Statement put = {
        "INSERT INTO outbox_internal.server_run AS k (server, run, survived, number, there_to, noted_to)"
        " SELECT $1, $2, array_to_string($3, '-'), 1 + coalesce(max(m.number), 0), $4, $5 FROM "
        "outbox_internal.server_run m"
        " ON CONFLICT (run) DO UPDATE SET server = excluded.server, survived = excluded.survived,"
        " number = excluded.number, met_at = excluded.met_at, there_to = excluded.there_to, noted_to = "
        "excluded.noted_to WHERE"
        " EXISTS (SELECT FROM outbox_internal.newest_run($2) m WHERE m.number > k.number)",
        5,
        {TEXTOID, TEXTOID, INT8ARRAYOID, TIMESTAMPTZOID, TIMESTAMPTZOID},
        nullptr};
    static Statement lower = {
        "UPDATE outbox_internal.server_run k SET noted_to = NULL, survived = array_to_string(CASE WHEN k.noted_to IS "
        "NOT NULL THEN $2"
        " ELSE least($2, string_to_array(k.survived, '-')::int8[]) END, '-'), there_to = CASE WHEN k.noted_to IS NOT "
        "NULL OR"
        " k.survived IS NULL THEN $3 WHEN k.there_to IS NOT NULL AND $3 IS NOT NULL THEN least(k.there_to, $3) END "
        "WHERE k.run = $1",
        3,
        {TEXTOID, INT8ARRAYOID, TIMESTAMPTZOID},
        nullptr};
    static Statement raise = {
        "UPDATE outbox_internal.server_run k SET survived = array_to_string(greatest($2, string_to_array(k.survived, "
        "'-')"
        "::int8[]), '-'), there_to = greatest(k.there_to, $3), noted_to = greatest(k.noted_to, $4)"
        " WHERE k.run = $1 AND k.noted_to IS NOT NULL",
        4,
        {TEXTOID, INT8ARRAYOID, TIMESTAMPTZOID, TIMESTAMPTZOID},
        nullptr};
    const Meeting meeting = ReadMeeting(server_run);
    LowerToLost(server_run, meeting.upto, &end);
    const bool told = !ends.empty() || (!noted_.any && !noted_.covered && AnyOtherRun(server_run));
    const bool lost = !ends.empty() && AnyNewsIn(server_run, meeting, end);
    if (told && !lost) {
      LimitToNoted(&end);
    }
    const auto add = [&](Arguments* arguments) {
      Datum survived = 0;
      told&& StreamIdDatum(end.survived, &survived) ? arguments->Add(survived) : arguments->AddNull();
      end.there_to == MemoryEnd::kNever ? arguments->AddNull() : arguments->Add(TimestampTzGetDatum(end.there_to));
    };
    Arguments first;
    first.Add(ServerText(server_));
    first.Add(ForeignText(server_run));
    add(&first);
    told && !lost ? first.Add(TimestampTzGetDatum(noted_.at)) : first.AddNull();
    RunStatement(&sweep, nullptr);
    RunStatement(&put, first.values, first.nulls);
    if (SPI_processed > 0 || !told) {
      return;
    }
    Arguments again;
    again.Add(ForeignText(server_run));
    add(&again);
    if (!lost) {
      again.Add(TimestampTzGetDatum(noted_.at));
    }
    RunStatement(lost ? &lower : &raise, again.values, again.nulls);
  });
}

}  // namespace outbox::log
