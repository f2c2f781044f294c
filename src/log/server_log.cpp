#include "log/server_log.h"

#include "log/arguments.h"
#include "log/attempt.h"
#include "log/rewind.h"
#include "log/row.h"
#include "pg/encoding.h"
#include "sink/places.h"

namespace outbox::log {

namespace {

// Of each lane the newest rows: some minutes under load, days of a quiet one. Each answer has two whole entries of the
// stream, hence no more of them than tell how far the server's memory goes.
#define NEWEST_ROWS "1000"
#define MOST_STREAMS "100"

void ReadStreams(std::string_view server, std::string_view run, std::vector<std::string>* streams) {
  static Statement newest = {
      "SELECT e.key FROM outbox.route r JOIN outbox.lane l ON l.route_id OPERATOR(pg_catalog.=) r.id"
      " CROSS JOIN LATERAL (SELECT g.at, g.places, g.run FROM outbox.progress g"
      " WHERE g.route_id OPERATOR(pg_catalog.=) l.route_id AND g.lane OPERATOR(pg_catalog.=) l.lane"
      " AND g.at OPERATOR(pg_catalog.>) l.since ORDER BY g.at DESC LIMIT " NEWEST_ROWS ") g"
      " CROSS JOIN LATERAL pg_catalog.jsonb_each(g.places) e"
      " WHERE r.server OPERATOR(pg_catalog.=) $1 AND " OUTBOX_EARLIER_RUN("g", "$2")
      " AND (e.value OPERATOR(pg_catalog.->>) 1) OPERATOR(pg_catalog.~) '^[0-9]+-[0-9]+$'"
      " AND NOT EXISTS (SELECT FROM outbox.server_run m WHERE m.server OPERATOR(pg_catalog.=) $1"
      " AND m.run OPERATOR(pg_catalog.=) $2)"
      " GROUP BY e.key ORDER BY pg_catalog.max(g.at) DESC LIMIT " MOST_STREAMS,
      2,
      {TEXTOID, TEXTOID},
      nullptr};
  Datum values[] = {ServerText(server), ForeignText(run)};
  RunStatement(&newest, values);
  for (uint64 row = 0; row < SPI_processed; row++) {
    streams->emplace_back(pg::Utf8(ResultText(row, 0)));
  }
}

}  // namespace

Status PgServerLog::Streams(const std::string& run, std::vector<std::string>* streams) {
  streams->clear();
  return TryInTransaction([&] { ReadStreams(server_, run, streams); });
}

Status PgServerLog::Record(const std::string& run, std::span<const sink::StreamEnd> ends) {
  std::string_view survived = "0-0";
  for (const sink::StreamEnd& end : ends) {
    survived = sink::PlaceBefore(survived, end.last) ? std::string_view(end.last) : survived;
  }
  if (ends.empty()) {
    return Status();  // it would not tell
  }
  return TryInTransaction([&] {
    static Statement sweep = {
        "DELETE FROM outbox.server_run m WHERE m.server OPERATOR(pg_catalog.=) $1 AND m.met_at OPERATOR(pg_catalog.<)"
        " (pg_catalog.now() OPERATOR(pg_catalog.-) '90 days'::pg_catalog.interval)",
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
