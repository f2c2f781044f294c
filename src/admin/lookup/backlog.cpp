#include "admin/lookup/backlog.h"

#include <algorithm>
#include <string_view>

#include "admin/common/cursor.h"
#include "pg/encoding.h"

extern "C" {
#include "catalog/pg_type.h"
#include "utils/array.h"
}

namespace outbox::admin {

namespace {

constexpr const char* kColumns = "SELECT xid, created_at, id, aggregate_type, aggregate_id, event_type, topic, ";
constexpr int kParkedColumn = 8;
constexpr int kDeliverAtColumn = 9;

// The text in UTF-8, as lanes compare it. Plain.
std::string_view TextView(Datum value, bool null) {
  if (null) {
    return {};
  }
  text* packed = DatumGetTextPP(value);
  return pg::Utf8({VARDATA_ANY(packed), static_cast<size_t>(VARSIZE_ANY_EXHDR(packed))});
}

// Whether the route has parked the event: a look into the primary key for each, where it has parked any.
const char* ParkedExpression(int64 route_id, bool counted) {
  return counted ? "false"
                 : psprintf("(SELECT true FROM outbox_internal.parked p WHERE p.route_id = " INT64_FORMAT
                            " AND p.created_at = l.created_at AND p.id = l.id AND p.replay = 0)",
                            route_id);
}

bool HasParked(int64 route_id) {
  return !RunSql(Access::kRead, "SELECT FROM outbox_internal.parked WHERE route_id = $1::bigint LIMIT 1",
                 {Cell(std::to_string(route_id))}, Plan::kByKey)
              .empty();
}

struct Counter {
  const std::vector<const LaneRecord*>* lanes;  // by number; nullptr: none
  uint64 me;                                    // events of this transaction are left out; 0: none are
  int64 limit;
  int64 seen;
  bool stopped;
  std::vector<LaneBacklog>* backlogs;  // by number
  const Snapshot* only;                // nullptr: all
  const BacklogKey* key;               // nullptr: all
  const char* parked;                  // SQL, of row l
  bool by_due;                         // only those due by then
  int64 due_by;

  // Returns false if enough was seen. Plain.
  bool Take(HeapTuple tuple, TupleDesc columns) {
    if (limit > 0 && seen >= limit) {
      stopped = true;
      return false;
    }
    seen++;
    bool null = false;
    uint64 xid = U64FromFullTransactionId(DatumGetFullTransactionId(SPI_getbinval(tuple, columns, 1, &null)));
    int64 created_at = DatumGetTimestampTz(SPI_getbinval(tuple, columns, 2, &null)) + kPgEpochMicros;
    const bool parked_too = DatumGetBool(SPI_getbinval(tuple, columns, kParkedColumn, &null)) && !null;
    if (xid == me || parked_too || (only != nullptr && !only->Visible(xid))) {
      return true;
    }
    if (by_due) {
      const Datum deliver_at = SPI_getbinval(tuple, columns, kDeliverAtColumn, &null);
      if (!null && DatumGetTimestampTz(deliver_at) > due_by - kPgEpochMicros) {
        return true;
      }
    }
    Uuid id;
    memcpy(id.data(), DatumGetUUIDP(SPI_getbinval(tuple, columns, 3, &null))->data, id.size());
    std::string_view type = TextView(SPI_getbinval(tuple, columns, 4, &null), false);
    Datum keyed = SPI_getbinval(tuple, columns, 5, &null);
    std::string_view aggregate_id = TextView(keyed, null);
    if (key != nullptr && (null || type != key->type || aggregate_id != key->id)) {
      return true;
    }
    std::string_view event_type = TextView(SPI_getbinval(tuple, columns, 6, &null), false);
    uint32 number = format::LaneOf(aggregate_id, id, static_cast<uint32>(lanes->size()));
    const LaneRecord* lane = (*lanes)[number];
    if (lane == nullptr || !lane->spec->Wants(type, aggregate_id, event_type, id)) {
      return true;
    }
    Datum own = SPI_getbinval(tuple, columns, 7, &null);
    EventFacts facts{xid, created_at, type, aggregate_id, event_type, TextView(own, null)};
    int side = lane->SideOf(facts);
    if (!lane->PassedBy(facts, side)) {
      LaneBacklog& backlog = (*backlogs)[number];
      Count(created_at, &backlog);
      Count(created_at, side < 0 ? &backlog.own : &backlog.sides[static_cast<size_t>(side)]);
    }
    return true;
  }

  static void Count(int64 created_at, Backlog* backlog) {
    backlog->pending++;
    if (backlog->oldest == 0 || created_at < backlog->oldest) {
      backlog->oldest = created_at;
    }
  }
};

// Plain.
void Scan(const char* table, const char* condition, Oid type, Datum value, Counter* counter) {
  const char* sql =
      psprintf("%s%s%s FROM %s AS l %s AND NOT outbox_internal.forgotten(l.payload, l.headers, l.content_type)",
               kColumns, counter->parked, counter->by_due ? ", deliver_at" : "", table, condition);
  ForEachRow(Access::kRead, sql, 1, &type, &value, nullptr,
             [counter](HeapTuple row, TupleDesc columns) { return counter->Take(row, columns); });
}

// Scans in the order in which the lane reads: first what was in progress at its snapshot, then what is newer. Plain.
void ScanBoth(const char* table, const uint64* in_progress, int count, uint64 next, Counter* counter) {
  if (count > 0) {
    Datum* late = static_cast<Datum*>(palloc(sizeof(Datum) * count));
    for (int i = 0; i < count; i++) {
      late[i] = FullTransactionIdGetDatum(FullTransactionIdFromU64(in_progress[i]));
    }
    ArrayType* array =
        construct_array(late, count, XID8OID, sizeof(FullTransactionId), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
    Scan(table, "WHERE xid = ANY ($1)", XID8ARRAYOID, PointerGetDatum(array), counter);
  }
  Scan(table, "WHERE xid >= $1", XID8OID, FullTransactionIdGetDatum(FullTransactionIdFromU64(next)), counter);
}

std::vector<LaneBacklog> EmptyBacklogs(const std::vector<LaneRecord>& lanes) {
  std::vector<LaneBacklog> backlogs(lanes.size());
  for (size_t i = 0; i < lanes.size(); i++) {
    backlogs[i].sides.resize(lanes[i].sides.size());
  }
  return backlogs;
}

std::vector<LaneBacklog> Count(const std::vector<LaneRecord>& lanes, const BacklogQuery& query) {
  if (lanes.empty() || lanes[0].spec == nullptr) {
    return EmptyBacklogs(lanes);
  }
  std::vector<const LaneRecord*> by_number(lanes[0].spec->lanes());
  std::vector<LaneBacklog> backlogs(by_number.size());
  uint64 next = UINT64_MAX;
  for (const LaneRecord& lane : lanes) {
    if (static_cast<size_t>(lane.lane) < by_number.size()) {
      by_number[lane.lane] = &lane;
      backlogs[lane.lane].sides.resize(lane.sides.size());
    }
    next = std::min(next, lane.position.base.xmax);
    for (const SideRecord& side : lane.sides) {
      next = std::min(next, side.position.base.xmax);
    }
  }
  std::vector<uint64> late;  // below `next`: the range above is scanned in any case
  auto add_late = [&late, next](const Position& position) {
    for (uint64 xid : position.base.xip) {
      if (xid < next) {
        late.push_back(xid);
      }
    }
  };
  for (const LaneRecord& lane : lanes) {
    add_late(lane.position);
    for (const SideRecord& side : lane.sides) {
      add_late(side.position);
    }
  }
  std::sort(late.begin(), late.end());
  late.erase(std::unique(late.begin(), late.end()), late.end());
  const bool by_due = query.due_by != PG_INT64_MAX;
  Counter counter{&by_number, 0,         query.limit, 0,      false,       &backlogs,
                  query.only, query.key, nullptr,     by_due, query.due_by};
  const int64 route_id = lanes[0].route_id;
  const bool parked = query.parked || !HasParked(route_id);
  const uint64* in_progress = late.data();
  int count = static_cast<int>(late.size());
  pg::Guard([&] {
    counter.me = query.own ? 0 : U64FromFullTransactionId(GetTopFullTransactionIdIfAny());
    counter.parked = ParkedExpression(route_id, parked);
    WithSpiAsOwner(Plan::kIndexOrder, [&] {
      if (query.removed_by != nullptr) {
        SPI_register_trigger_data(query.removed_by);
      }
      ScanBoth(query.table, in_progress, count, next, &counter);
    });
  });
  std::vector<LaneBacklog> result;
  for (const LaneRecord& lane : lanes) {
    result.push_back(static_cast<size_t>(lane.lane) < backlogs.size() ? backlogs[lane.lane] : LaneBacklog());
    result.back().capped = result.back().own.capped = counter.stopped;
    result.back().sides.resize(lane.sides.size());
    for (Backlog& side : result.back().sides) {
      side.capped = counter.stopped;
    }
  }
  return result;
}

}  // namespace

std::vector<LaneBacklog> CountBacklog(const std::vector<LaneRecord>& lanes, Access access, const BacklogQuery& query) {
  return access == Access::kRead ? Count(lanes, query) : AtLatestSnapshot([&] { return Count(lanes, query); });
}

}  // namespace outbox::admin
