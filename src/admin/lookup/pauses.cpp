#include "admin/lookup/pauses.h"

namespace outbox::admin {

std::vector<Pause> LoadPauses(Access access) {
  std::vector<Pause> pauses;
  for (const Row& row : RunSql(access,
                               "SELECT coalesce(route_id, 0), server, topic, aggregate_type, aggregate_id, reason, "
                               "(extract(epoch FROM paused_at) * 1000000)::bigint, paused_by FROM outbox.pause "
                               "ORDER BY id")) {
    pauses.push_back({Number(row[0]), row[1], row[2], row[3], row[4], row[5].value(), UnixMicrosCell(Number(row[6])),
                      row[7].value()});
  }
  return pauses;
}

const Pause* FindRoutePause(const std::vector<Pause>& pauses, int64 route_id, const std::string& server) {
  for (const Pause& pause : pauses) {
    if (pause.server ? *pause.server == server : pause.route_id == route_id && !pause.topic && !pause.aggregate_type) {
      return &pause;
    }
  }
  return nullptr;
}

std::string ResumeCalls(Access access, const std::string& route) {
  std::string calls;
  for (const Row& row : RunSql(access,
                               "SELECT p.server FROM outbox.route r JOIN outbox.pause p ON p.server = r.server OR "
                               "(p.route_id = r.id AND p.topic IS NULL AND p.aggregate_type IS NULL) WHERE r.name = $1 "
                               "ORDER BY p.server NULLS FIRST",
                               {Cell(route)})) {
    calls += calls.empty() ? "" : " and ";
    calls += row[0] ? "outbox.resume(server => " + Literal(*row[0]) + ")" : "outbox.resume(" + Literal(route) + ")";
  }
  return calls;
}

const Pause* FindEventPause(const std::vector<Pause>& pauses, int64 route_id, const std::string& server,
                            std::string_view topic, std::string_view aggregate_type, const Cell& aggregate_id) {
  if (const Pause* whole = FindRoutePause(pauses, route_id, server)) {
    return whole;
  }
  for (const Pause& pause : pauses) {
    if (pause.route_id == route_id && (pause.topic ? *pause.topic == topic
                                                   : pause.aggregate_type && *pause.aggregate_type == aggregate_type &&
                                                         pause.aggregate_id == aggregate_id)) {
      return &pause;
    }
  }
  return nullptr;
}

}  // namespace outbox::admin
