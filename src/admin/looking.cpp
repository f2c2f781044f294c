// Behind the views outbox.lag and outbox.worker [P].
#include <algorithm>
#include <map>

#include "admin/backlog.h"
#include "admin/lanes.h"
#include "admin/pauses.h"
#include "admin/query.h"
#include "admin/shared_look.h"
#include "pg/entry.h"

extern "C" {
#include "commands/dbcommands.h"
}

namespace {

using namespace outbox::admin;
using outbox::pg::Guard;

using ParkedCounts = std::map<std::pair<std::string, std::string>, std::string>;

ParkedCounts CountParked() {
  ParkedCounts counts;
  for (Row& row : RunSql(Access::kRead, "SELECT route_id, lane, count(*) FROM outbox.parked GROUP BY 1, 2")) {
    counts[{row[0].value(), row[1].value()}] = row[2].value();
  }
  return counts;
}

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

Row LagRow(const LaneRecord& lane, const Backlog& backlog, const LaneLook* look, const ParkedCounts& parked,
           const Pause* pause) {
  bool owned = look != nullptr && look->owned;
  auto dead = parked.find({std::to_string(lane.route_id), std::to_string(lane.lane)});
  Cell delay;
  if (backlog.oldest != 0) {
    int64 now = GetCurrentTimestamp() + kPgEpochMicros;
    delay = std::to_string(std::max<int64>(now - backlog.oldest, 0)) + " microseconds";
  }
  Row row = {lane.route,
             std::to_string(lane.lane),
             lane.server,
             pause != nullptr ? Cell("paused")
             : owned          ? TextCell(look->state)
                              : Cell("unowned"),
             std::to_string(backlog.pending),
             backlog.capped ? "true" : "false",
             UnixMicrosCell(backlog.oldest),
             delay,
             look != nullptr ? UnixMicrosCell(look->delivered_to) : Cell(),
             owned ? std::to_string(look->inflight_count) : "0",
             dead != parked.end() ? dead->second : "0",
             owned ? TimestampCell(look->next_try) : Cell()};
  AddTrouble(lane, look, pause, &row);
  return row;
}

const char* KindText(outbox::pg::WorkerKind kind) {
  return kind == outbox::pg::WorkerKind::kKeeper ? "keeper" : "relay";
}

Cell DatabaseName(Oid database) {
  const char* name = Guard([&]() -> const char* { return get_database_name(database); });
  return name != nullptr ? Cell(name) : Cell();
}

}  // namespace

OUTBOX_FUNCTION(outbox_lag) {
  ResultSet result(fcinfo);
  result.Begin();
  std::vector<LaneLook> looks = LookAtLanes(MyDatabaseId);
  ParkedCounts parked = CountParked();
  std::vector<Pause> pauses = LoadPauses();
  for (const std::vector<LaneRecord>& route : ByRoute(LoadLanes(std::nullopt))) {
    std::vector<Backlog> backlogs = CountBacklog(route, kLagScanLimit);
    for (size_t i = 0; i < route.size(); i++) {
      const LaneRecord& lane = route[i];
      result.Add(LagRow(lane, backlogs[i], FindLook(looks, lane.route_id, lane.lane), parked,
                        FindRoutePause(pauses, lane.route_id, lane.server)));
    }
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
