#include "log/loss/noted_ends.h"

#include <charconv>
#include <cstring>
#include <string>
#include <string_view>

#include "pg/encoding.h"
#include "pg/sql.h"

namespace outbox::log {

using namespace pg::sql;

namespace {

// "topic/partition"; false: it is of another form.
bool SplitPlace(std::string_view place, std::string_view* topic, int32_t* partition) {
  const size_t slash = place.rfind('/');
  if (slash == place.npos) {
    return false;
  }
  *topic = place.substr(0, slash);
  const char* end = place.data() + place.size();
  const auto parsed = std::from_chars(place.data() + slash + 1, end, *partition);
  return parsed.ec == std::errc() && parsed.ptr == end && *partition >= 0;
}

}  // namespace

Status LoadNotedEnds(uint32_t server, relay::PastEnds* past) {
  return TryInTransaction([&] {
    static Statement met = {
        "SELECT m.cluster FROM outbox_internal.met_cluster m WHERE m.server = $1", 1, {OIDOID}, nullptr};
    // Sixteen rows of a lane: some seconds of a busy time.
    static Statement newest = {
        "WITH noted AS MATERIALIZED (SELECT g.at, g.places FROM pg_foreign_server s"
        " JOIN outbox.route r ON r.server = s.srvname JOIN outbox_internal.lane l ON l.route_id = r.id"
        " CROSS JOIN LATERAL (SELECT p.at, p.places, p.run FROM outbox_internal.progress p"
        " WHERE p.route_id = l.route_id AND p.lane = l.lane AND p.side = 0 ORDER BY p.at DESC LIMIT 16) g"
        " WHERE s.oid = $1 AND g.run = $2 AND g.places IS NOT NULL LIMIT 4096)"
        " SELECT DISTINCT ON (e.key) e.key, e.value ->> 1 FROM noted n CROSS JOIN LATERAL jsonb_each(n.places) e"
        " WHERE jsonb_typeof(e.value) = 'array' ORDER BY e.key, n.at DESC LIMIT 4096",
        2,
        {OIDOID, TEXTOID},
        nullptr};
    Datum of_server[] = {ObjectIdGetDatum(server)};
    RunStatement(&met, of_server);
    if (SPI_processed == 0) {
      return;
    }
    const char* cluster = ResultText(0, 0);
    Datum values[] = {ObjectIdGetDatum(server), TextDatum(cluster)};
    *past = relay::PastEnds(std::string(pg::Utf8(cluster)));
    RunStatement(&newest, values);
    for (uint64 row = 0; row < SPI_processed; row++) {
      const char* offset = ResultText(row, 1);
      const std::string_view place = pg::Utf8(ResultText(row, 0));
      std::string_view topic;
      int32_t partition = 0;
      int64_t last = 0;
      if (offset != nullptr && SplitPlace(place, &topic, &partition) &&
          std::from_chars(offset, offset + strlen(offset), last).ec == std::errc()) {
        past->Add(topic, partition, last);
      }
    }
  });
}

}  // namespace outbox::log
