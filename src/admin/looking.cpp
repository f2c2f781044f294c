// Behind the views outbox.lag, outbox.destination and outbox.worker [P].
#include <algorithm>
#include <map>

#include "admin/backlog.h"
#include "admin/encoding.h"
#include "admin/lanes.h"
#include "admin/parked_counts.h"
#include "admin/pauses.h"
#include "admin/query.h"
#include "admin/shared_look.h"
#include "pg/entry.h"
#include "sink/kind.h"

extern "C" {
#include "commands/dbcommands.h"
}

namespace {

using namespace outbox::admin;
using outbox::pg::Guard;

// Where a lane's trouble is in the tables, no worker needs to have seen it.
void AddTrouble(const LaneRecord& lane, const LaneLook* look, const Pause* pause, Row* row) {
  if (pause != nullptr) {
    row->insert(row->end(), {Cell("paused"), Cell("PAUSED"), Cell(pause->reason), pause->since});
  } else if (!lane.trouble.empty()) {
    row->insert(row->end(), {Cell("config"), Cell("BAD_ROUTE"), Cell(lane.trouble), Cell()});
  } else if (look != nullptr) {
    row->insert(row->end(), {TextCell(look->error_class), TextCell(look->error_code), TextCell(look->error_message),
                             TimestampCell(look->error_since)});
  } else {
    row->insert(row->end(), 4, Cell());
  }
}

Cell DelayCell(const Backlog& backlog) {
  if (backlog.oldest == 0) {
    return Cell();
  }
  int64 now = GetCurrentTimestamp() + kPgEpochMicros;
  return std::to_string(std::max<int64>(now - backlog.oldest, 0)) + " microseconds";
}

Row LagRow(const LaneRecord& lane, const Backlog& own, const LaneLook* look, const ParkedCount& parked,
           const Pause* pause) {
  bool owned = look != nullptr && look->owned;
  Row row = {lane.route,
             std::to_string(lane.lane),
             Cell(),
             Cell(),
             lane.server,
             pause != nullptr ? Cell("paused")
             : owned          ? TextCell(look->state)
                              : Cell("unowned"),
             std::to_string(own.pending),
             own.capped ? "true" : "false",
             UnixMicrosCell(own.oldest),
             DelayCell(own),
             look != nullptr ? UnixMicrosCell(look->delivered_to) : Cell(),
             owned ? std::to_string(look->inflight_count) : "0",
             std::to_string(parked.all()),
             parked.capped ? "true" : "false",
             owned ? TimestampCell(look->next_try) : Cell()};
  AddTrouble(lane, look, pause, &row);
  return row;
}

// A side lane: the topics that it serves have left the lane.
Row SideRow(const LaneRecord& lane, const SideRecord& side, const Backlog& backlog, const LaneLook* look,
            const Pause* pause) {
  const bool owned = look != nullptr && look->owned;
  std::string topics;
  for (const SideRecord::Topic& one : side.topics) {
    topics += (topics.empty() ? "" : ", ") + FromUtf8(one.topic);
  }
  Row row = {lane.route,
             std::to_string(lane.lane),
             std::to_string(side.side),
             topics,
             lane.server,
             pause != nullptr ? Cell("paused")
             : owned          ? TextCell(look->state)
                              : Cell("unowned"),
             std::to_string(backlog.pending),
             backlog.capped ? "true" : "false",
             UnixMicrosCell(backlog.oldest),
             DelayCell(backlog),
             look != nullptr ? UnixMicrosCell(look->delivered_to) : Cell(),
             owned ? std::to_string(look->inflight_count) : "0",
             "0",
             "false",
             owned ? TimestampCell(look->next_try) : Cell()};
  if (owned && look->error_class[0] != '\0') {
    AddTrouble(lane, look, pause, &row);
  } else if (pause != nullptr) {
    AddTrouble(lane, nullptr, pause, &row);
  } else {
    row.insert(row.end(), {side.error_class, side.error_code, side.error_message, side.since});
  }
  return row;
}

int Badness(const DestinationLook& look) {
  return strcmp(look.state, "open") == 0        ? 3
         : strcmp(look.state, "half-open") == 0 ? 2
         : look.error_class[0] != '\0'          ? 1
                                                : 0;
}

const char* KindText(outbox::pg::WorkerKind kind) {
  return kind == outbox::pg::WorkerKind::kKeeper ? "keeper" : "relay";
}

Cell DatabaseName(Oid database) {
  const char* name = Guard([&]() -> const char* { return get_database_name(database); });
  return name != nullptr ? Cell(name) : Cell();
}

// All of ours, in the form that a cast to name[] takes.
Cell Wrappers() {
  std::vector<std::string> names;
  for (const outbox::sink::SinkKind* kind : outbox::sink::Kinds()) {
    names.emplace_back(kind->wrapper);
  }
  return TextArrayLiteral(names);
}

}  // namespace

OUTBOX_FUNCTION(outbox_lag) {
  ResultSet result(fcinfo);
  result.Begin();
  std::vector<LaneLook> looks = LookAtLanes(MyDatabaseId);
  std::map<std::pair<int64, int>, ParkedCount> parked = CountParked(Access::kRead);
  std::vector<Pause> pauses = LoadPauses();
  for (const std::vector<LaneRecord>& route : ByRoute(LoadLanes(std::nullopt))) {
    std::vector<LaneBacklog> backlogs = CountBacklog(route, kLagScanLimit);
    for (size_t i = 0; i < route.size(); i++) {
      const LaneRecord& lane = route[i];
      const Pause* pause = FindRoutePause(pauses, lane.route_id, lane.server);
      result.Add(LagRow(lane, backlogs[i].own, FindLook(looks, lane.route_id, lane.lane),
                        parked[{lane.route_id, lane.lane}], pause));
      for (size_t s = 0; s < lane.sides.size(); s++) {
        const SideRecord& side = lane.sides[s];
        result.Add(
            SideRow(lane, side, backlogs[i].sides[s], FindLook(looks, lane.route_id, lane.lane, side.side), pause));
      }
    }
  }
  return static_cast<Datum>(0);
}

OUTBOX_FUNCTION(outbox_destination) {
  ResultSet result(fcinfo);
  result.Begin();
  std::vector<DestinationLook> looks = LookAtDestinations(MyDatabaseId);
  for (const Row& server : RunSql(Access::kRead,
                                  "SELECT s.oid, s.srvname, w.fdwname, p.reason, p.paused_by, "
                                  "(extract(epoch FROM p.paused_at) * 1000000)::bigint "
                                  "FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw "
                                  "LEFT JOIN outbox.pause p ON p.server = s.srvname "
                                  "WHERE w.fdwname = ANY ($1::name[]) ORDER BY 2",
                                  {Wrappers()})) {
    const DestinationLook* worst = nullptr;
    int64 workers = 0, trips = 0, deaths = 0;
    for (const DestinationLook& look : looks) {
      if (!look.alive || std::to_string(look.server) != *server[0]) {
        continue;
      }
      workers++;
      trips += static_cast<int64>(look.trips);
      deaths += static_cast<int64>(look.deaths);
      worst = worst == nullptr || Badness(look) > Badness(*worst) ? &look : worst;
    }
    Row row = {server[1], server[2]};
    if (server[3]) {
      row.insert(row.end(), {Cell("paused"), UnixMicrosCell(std::stoll(server[5].value())), Cell()});
    } else if (worst != nullptr) {
      row.insert(row.end(), {Cell(worst->state), TimestampCell(worst->since), TimestampCell(worst->next_try)});
    } else {
      row.insert(row.end(), {Cell("unused"), Cell(), Cell()});
    }
    row.insert(row.end(), {std::to_string(workers), std::to_string(trips), std::to_string(deaths)});
    if (worst != nullptr) {
      row.insert(row.end(),
                 {TextCell(worst->error_class), TextCell(worst->error_code), TextCell(worst->error_message)});
    } else {
      row.insert(row.end(), 3, Cell());
    }
    row.insert(row.end(), {server[4], server[3]});
    result.Add(row);
  }
  return static_cast<Datum>(0);
}

OUTBOX_FUNCTION(outbox_worker) {
  ResultSet result(fcinfo);
  result.Begin();
  if (outbox::pg::Shared() == nullptr) {
    return static_cast<Datum>(0);
  }
  if (outbox::pg::Shared()->launcher_pid != 0) {
    result.Add({Cell("launcher"), std::to_string(outbox::pg::Shared()->launcher_pid), Cell(), Cell(), Cell(), Cell(),
                Cell("running")});
  }
  std::map<Oid, std::vector<LaneLook>> lanes;
  for (const WorkerLook& worker : LookAtWorkers()) {
    bool relay = worker.kind == outbox::pg::WorkerKind::kRelay;
    if (relay && lanes.find(worker.database) == lanes.end()) {
      lanes[worker.database] = LookAtLanes(worker.database);
    }
    int64 owned = 0;
    for (const LaneLook& lane : relay ? lanes[worker.database] : std::vector<LaneLook>()) {
      owned += lane.owned && lane.owner == worker.incarnation;
    }
    result.Add({KindText(worker.kind), worker.pid != 0 ? Cell(std::to_string(worker.pid)) : Cell(),
                DatabaseName(worker.database), relay ? Cell(std::to_string(worker.ordinal)) : Cell(),
                TimestampCell(worker.since), relay ? Cell(std::to_string(owned)) : Cell(),
                Cell(!worker.running   ? "starting"
                     : worker.stopping ? "stopping"
                                       : "running")});
  }
  return static_cast<Datum>(0);
}
