#include "log/server_log.h"

#include <algorithm>

#include "log/place_arguments.h"
#include "log/rewind.h"
#include "log/row.h"
#include "log/sql.h"
#include "pg/encoding.h"
#include "sink/places.h"

namespace outbox::log {

namespace {

// The newest rows of each lane: a minute under load, days for a quiet one. Each answer carries two whole entries of the
// stream, so no more are asked for than needed to find how far the server's memory goes.
#define NEWEST_ROWS "200"
#define MOST_STREAMS "100"
constexpr int kPoints = 48;  // asked about at once between two moments

// Rows of lanes of the server $1 that were acknowledged under another run than $2, unless that was recorded already.
#define OF_SERVER "outbox.route r JOIN outbox.lane l ON l.route_id = r.id"
#define OF_LANE "g.route_id = l.route_id AND g.lane = l.lane"
#define NOT_RECORDED                                                          \
  "NOT EXISTS (SELECT FROM outbox.server_run m WHERE m.server = $1 AND m.run" \
  " = $2)"

std::string_view Survived(std::span<const sink::StreamEnd> ends) {
  std::string_view survived = "0-0";
  for (const sink::StreamEnd& end : ends) {
    survived = sink::PlaceBefore(survived, end.last) ? std::string_view(end.last) : survived;
  }
  return survived;
}

void ReadNewest(std::string_view server, std::string_view run, std::vector<std::string>* streams) {
  static Statement newest = {"SELECT e.key FROM " OF_SERVER
                             " CROSS JOIN LATERAL (SELECT g.at, g.places, g.run FROM outbox.progress g WHERE " OF_LANE
                             " AND g.at > l.since ORDER BY g.at DESC LIMIT " NEWEST_ROWS
                             ") g"
                             " CROSS JOIN LATERAL jsonb_each(g.places) e"
                             " WHERE r.server = $1 AND " OUTBOX_EARLIER_RUN(
                                 "g", "$2") " AND (e.value ->> 1) ~ '^[0-9]+-[0-9]+$' AND " NOT_RECORDED
                                            " GROUP BY e.key ORDER BY max(g.at) DESC LIMIT " MOST_STREAMS,
                             2,
                             {TEXTOID, TEXTOID},
                             nullptr};
  Datum values[] = {ServerText(server), ForeignText(run)};
  RunStatement(&newest, values);
  for (uint64 row = 0; row < SPI_processed; row++) {
    streams->emplace_back(pg::Utf8(ResultText(row, 0)));
  }
}

// The newest and the oldest moment at which a lane saved what was acknowledged; returns false if there is none, or the
// run is recorded already.
bool ReadBounds(std::string_view server, std::string_view run, int64* newest, int64* oldest) {
#define MOMENT(order)                                                                                         \
  "(SELECT g.at FROM outbox.progress g WHERE " OF_LANE                                                        \
  " AND g.side = 0 AND g.acknowledged IS NOT NULL AND " OUTBOX_EARLIER_RUN("g", "$2") " ORDER BY g.at " order \
                                                                                      " LIMIT 1)"
  static Statement bounds = {
      "SELECT max(" MOMENT("DESC") "), min(" MOMENT("ASC") ") FROM " OF_SERVER " WHERE r.server = $1 AND " NOT_RECORDED,
      2,
      {TEXTOID, TEXTOID},
      nullptr};
#undef MOMENT
  Datum values[] = {ServerText(server), ForeignText(run)};
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
void ReadProbes(std::string_view server, std::string_view run, std::span<const int64> points,
                std::vector<PgServerLog::Probe>* probes) {
  static Statement at_points = {
      "SELECT DISTINCT n.at, array_to_string(n.acknowledged, '-'), e.key"
      " FROM unnest($3::timestamptz[]) p(point) CROSS JOIN LATERAL"
      " (SELECT g.at, g.acknowledged, g.places FROM " OF_SERVER
      " CROSS JOIN LATERAL (SELECT g.at, g.acknowledged, g.places FROM outbox.progress g WHERE " OF_LANE
      " AND g.side = 0 AND g.at <= p.point AND g.acknowledged IS NOT NULL"
      " AND " OUTBOX_EARLIER_RUN("g", "$2")
      " ORDER BY g.at DESC LIMIT 1) g WHERE r.server = $1 ORDER BY g.at DESC LIMIT 1) n"
      " CROSS JOIN LATERAL jsonb_each(n.places) e WHERE (e.value ->> 1)"
      " = array_to_string(n.acknowledged, '-')",
      3,
      {TEXTOID, TEXTOID, TIMESTAMPTZARRAYOID},
      nullptr};
  Column moments(points.size());
  for (int64 point : points) {
    moments.Add(TimestampTzGetDatum(point));
  }
  Datum values[] = {ServerText(server), ForeignText(run), moments.Array(TIMESTAMPTZOID)};
  RunStatement(&at_points, values);
  for (uint64 row = 0; row < SPI_processed; row++) {
    bool isnull = false;
    PgServerLog::Probe& probe = probes->emplace_back();
    probe.at = DatumGetTimestampTz(ResultDatum(row, 0, &isnull));
    probe.acknowledged.assign(ResultText(row, 1));
    probe.stream = pg::Utf8(ResultText(row, 2));
  }
}

// Between which moments the server's memory ends, as far as the probes tell; returns false if that is known well
// enough, or nothing is known.
bool FindGap(const std::vector<PgServerLog::Probe>& probes, std::string_view survived, int64* there, int64* gone) {
  *there = PG_INT64_MIN;
  *gone = PG_INT64_MAX;
  for (const PgServerLog::Probe& probe : probes) {
    if (!sink::PlaceBefore(survived, probe.acknowledged)) {
      *there = std::max(*there, probe.at);
    }
  }
  for (const PgServerLog::Probe& probe : probes) {
    if (probe.at > *there) {
      *gone = std::min(*gone, probe.at);
    }
  }
  return *there != PG_INT64_MIN && *gone != PG_INT64_MAX && *gone - *there > USECS_PER_SEC;
}

}  // namespace

Status PgServerLog::Streams(const std::string& run, std::span<const sink::StreamEnd> ends,
                            std::vector<std::string>* streams) {
  streams->clear();
  if (ends.empty()) {
    probes_.clear();
  }
  int64 points[kPoints];
  size_t count = 0;
  std::vector<Probe> found;
  int64 there = 0;
  int64 gone = 0;
  if (!ends.empty()) {
    if (!FindGap(probes_, Survived(ends), &there, &gone)) {
      return Status();
    }
    for (int i = 1; i < kPoints; i++) {
      points[count++] = there + (gone - there) / kPoints * i;
    }
  }
  Status status = TryInTransaction([&] {
    if (ends.empty()) {
      ReadNewest(server_, run, streams);
      if (!ReadBounds(server_, run, &gone, &there)) {
        return;
      }
      points[count++] = gone;
      for (int64 back = USECS_PER_SEC; count < kPoints - 1 && gone - back > there; back *= 2) {
        points[count++] = gone - back;
      }
      points[count++] = there;
    }
    ReadProbes(server_, run, {points, count}, &found);
  });
  if (!status.ok()) {
    return status;
  }
  for (Probe& probe : found) {
    const bool known =
        std::any_of(ends.begin(), ends.end(), [&](const sink::StreamEnd& end) { return end.stream == probe.stream; }) ||
        std::find(streams->begin(), streams->end(), probe.stream) != streams->end();
    if (!known) {
      streams->push_back(probe.stream);
    }
    probes_.push_back(std::move(probe));
  }
  return status;
}

Status PgServerLog::Lost(const std::string& run, std::span<const sink::StreamEnd> ends, bool* lost) {
  *lost = false;
  return TryInTransaction([&] {
    static Statement any = {"SELECT FROM " OF_SERVER
                            " CROSS JOIN LATERAL (SELECT 0 AS side UNION ALL SELECT s.side FROM outbox.side_lane s"
                            " WHERE s.route_id = l.route_id AND s.lane = l.lane) s"
                            " CROSS JOIN LATERAL (SELECT g.acknowledged, g.run FROM outbox.progress g WHERE " OF_LANE
                            " AND g.side = s.side AND g.at > l.since"
                            " AND g.acknowledged IS NOT NULL ORDER BY g.at DESC LIMIT 10) g"
                            " WHERE r.server = $1 AND " OUTBOX_EARLIER_RUN(
                                "g", "$2") " AND g.acknowledged > $3 AND " NOT_RECORDED " LIMIT 1",
                            3,
                            {TEXTOID, TEXTOID, INT8ARRAYOID},
                            nullptr};
    Datum survived = 0;
    StreamIdDatum(Survived(ends), &survived);
    Datum values[] = {ServerText(server_), ForeignText(run), survived};
    RunStatement(&any, values);
    *lost = SPI_processed > 0;
  });
}

Status PgServerLog::Record(const std::string& run, std::span<const sink::StreamEnd> ends) {
  if (ends.empty()) {
    return Status();  // the server did not tell
  }
  const std::string_view survived = Survived(ends);
  return TryInTransaction([&] {
    static Statement sweep = {
        "DELETE FROM outbox.server_run m WHERE m.server = $1 AND m.met_at <"
        " (now() - '90 days'::interval)",
        1,
        {TEXTOID},
        nullptr};
    static Statement put = {
        "INSERT INTO outbox.server_run (server, run, survived, resend) VALUES ($1, $2, $3, $4)"
        " ON CONFLICT (server, run) DO NOTHING",
        4,
        {TEXTOID, TEXTOID, TEXTOID, BOOLOID},
        nullptr};
    Datum values[] = {ServerText(server_), ForeignText(run), ForeignText(survived), BoolGetDatum(resend_)};
    RunStatement(&sweep, values);
    RunStatement(&put, values);
  });
}

}  // namespace outbox::log
