#include "admin/lookup/event_walk.h"

#include <algorithm>
#include <map>
#include <optional>

#include "admin/common/cursor.h"
#include "admin/common/operation.h"
#include "admin/common/text_encoding.h"
#include "pg/encoding.h"

extern "C" {
#include "catalog/pg_type.h"
#include "storage/itemptr.h"
}

namespace outbox::admin {

namespace {

constexpr int kFilters = 4;

std::string_view TextAt(HeapTuple tuple, TupleDesc columns, int number) {
  bool null = false;
  Datum value = SPI_getbinval(tuple, columns, number, &null);
  if (null) {
    return {};
  }
  text* packed = DatumGetTextPP(value);
  return {VARDATA_ANY(packed), static_cast<size_t>(VARSIZE_ANY_EXHDR(packed))};
}

void Fill(HeapTuple tuple, TupleDesc columns, WalkedEvent* event) {
  bool null = false;
  event->xid = U64FromFullTransactionId(DatumGetFullTransactionId(SPI_getbinval(tuple, columns, 1, &null)));
  event->created_at = DatumGetTimestampTz(SPI_getbinval(tuple, columns, 2, &null)) + kPgEpochMicros;
  memcpy(event->id.data(), DatumGetUUIDP(SPI_getbinval(tuple, columns, 3, &null))->data, event->id.size());
  event->aggregate_type = TextAt(tuple, columns, 4);
  event->aggregate_id = TextAt(tuple, columns, 5);
  event->event_type = TextAt(tuple, columns, 6);
  event->topic = TextAt(tuple, columns, 7);
  event->payload_bytes = DatumGetInt32(SPI_getbinval(tuple, columns, 8, &null));
  event->table = DatumGetObjectId(SPI_getbinval(tuple, columns, 9, &null));
  auto place = reinterpret_cast<ItemPointer>(DatumGetPointer(SPI_getbinval(tuple, columns, 10, &null)));
  event->block = ItemPointerGetBlockNumber(place);
  event->offset = ItemPointerGetOffsetNumber(place);
  event->forgotten = DatumGetBool(SPI_getbinval(tuple, columns, 11, &null));
  event->erasable = DatumGetBool(SPI_getbinval(tuple, columns, 12, &null));
}

// Plain, except for the visitor, which is declared outside of the guard.
void Walk(const char* sql, const char* const* filters, const std::function<void(const WalkedEvent&)>* visit) {
  uint64 me = U64FromFullTransactionId(GetTopFullTransactionIdIfAny());
  WithSpiAsOwner(Plan::kUsual, [&] {
    TextParams texts;
    for (int i = 0; i < kFilters; i++) {
      texts.Add(filters[i]);
    }
    ForEachRow(Access::kWrite, sql, texts.count, texts.types, texts.values, texts.nulls,
               [&](HeapTuple row, TupleDesc columns) {
                 WalkedEvent event;
                 Fill(row, columns, &event);
                 if (event.xid != me) {
                   (*visit)(event);
                 }
                 return true;
               });
  });
}

using TimesByRoute = std::map<int64, std::vector<int64>>;

// created_at of each, sorted, by route: of one, or of all (no route). There may be a million, so they take eight bytes
// each; those parked are read from the primary key alone.
TimesByRoute Times(std::string sql, std::optional<int64> route_id) {
  TimesByRoute times;
  sql += route_id ? " AND route_id = $1" : "";
  const char* text = sql.c_str();
  pg::Guard([&] {
    WithSpiAsOwner(Plan::kIndexOrder, [&] {
      Oid type = INT8OID;
      Datum value = Int64GetDatum(route_id.value_or(0));
      ForEachRow(Access::kWrite, text, route_id ? 1 : 0, &type, &value, nullptr, [&](HeapTuple row, TupleDesc columns) {
        bool null = false;
        times[DatumGetInt64(SPI_getbinval(row, columns, 1, &null))].push_back(
            DatumGetTimestampTz(SPI_getbinval(row, columns, 2, &null)) + kPgEpochMicros);
        return true;
      });
    });
  });
  for (auto& [route, of_route] : times) {
    std::sort(of_route.begin(), of_route.end());
  }
  return times;
}

TimesByRoute ParkedTimes(std::optional<int64> route_id) {
  return Times("SELECT route_id, created_at FROM outbox_internal.parked WHERE replay = 0", route_id);
}

// All of the table is read, whosever rows are asked for: it has no index.
TimesByRoute GivenUpTimes(std::optional<int64> route_id) {
  return Times(
      "SELECT route_id, created_at FROM outbox_internal.outcome WHERE replay = 0 AND outcome IN ('skipped', "
      "'discarded')",
      route_id);
}

}  // namespace

void WalkLog(const WalkFilter& filter, const std::function<void(const WalkedEvent&)>& visit) {
  // Literals, not parameters: the planner then opens and locks the day tables of that time only. They are digits made
  // here.
  std::string sql =
      "SELECT xid, created_at, id, aggregate_type, aggregate_id, event_type, topic, "
      "coalesce(octet_length(payload), 0), source, place, outbox_internal.forgotten(payload, headers, content_type), "
      "payload IS NOT NULL OR headers IS NOT NULL FROM outbox_internal.whole_log WHERE created_at >= '" +
      UnixMicrosText(filter.since) + "'::timestamptz AND created_at < '" + UnixMicrosText(filter.until) +
      "'::timestamptz AND ($1 IS NULL OR aggregate_type LIKE $1) AND ($2 IS NULL OR aggregate_id = $2) "
      // ANY would compare each row with each id: it is hashed where its array is a constant, and a text's cast is none.
      "AND ($3 IS NULL OR event_type LIKE $3) AND ($4 IS NULL OR id IN (SELECT unnest($4::uuid[])))";
  const Cell* cells[kFilters] = {&filter.aggregate_type, &filter.aggregate_id, &filter.event_type, &filter.ids};
  const char* filters[kFilters];
  for (int i = 0; i < kFilters; i++) {
    filters[i] = *cells[i] ? (*cells[i])->c_str() : nullptr;
  }
  const char* text = sql.c_str();
  pg::Guard([&] { Walk(text, filters, &visit); });
}

RouteEvents::RouteEvents(const std::string& route, Positions positions, Must must) : route_id_(Number(RouteId(route))) {
  TakeLanes(route, LoadLanes(route, Access::kWrite, positions), must);
  parked_ = std::move(ParkedTimes(route_id_)[route_id_]);
  given_up_ = std::move(GivenUpTimes(route_id_)[route_id_]);
}

std::vector<RouteEvents> RouteEvents::OfEach(const std::vector<std::string>& routes, Positions positions, Must must) {
  std::map<std::string, std::vector<LaneRecord>> lanes;
  for (std::vector<LaneRecord>& of_route : ByRoute(LoadLanes(std::nullopt, Access::kWrite, positions))) {
    const std::string name = of_route[0].route;
    lanes[name] = std::move(of_route);
  }
  TimesByRoute parked = ParkedTimes(std::nullopt);
  TimesByRoute given_up = GivenUpTimes(std::nullopt);
  std::vector<RouteEvents> events;
  for (const std::string& route : routes) {
    RouteEvents one;
    one.route_id_ = lanes[route].empty() ? 0 : lanes[route][0].route_id;
    try {
      one.TakeLanes(route, std::move(lanes[route]), must);
    } catch (const pg::UserError& error) {
      if (error.sqlstate == ERRCODE_UNDEFINED_OBJECT) {
        continue;
      }
      throw;
    }
    one.parked_ = std::move(parked[one.route_id_]);
    one.given_up_ = std::move(given_up[one.route_id_]);
    events.push_back(std::move(one));
  }
  return events;
}

void RouteEvents::TakeLanes(const std::string& route, std::vector<LaneRecord> lanes, Must must) {
  if (lanes.empty()) {
    (void)RouteId(route);  // it may have been dropped in between
  }
  if (lanes.empty() || lanes[0].spec == nullptr || (must == Must::kWork && !lanes[0].works()) ||
      (must == Must::kKnowTopics && !lanes[0].knows_topic)) {
    throw CannotWork(route, lanes.empty() ? "It has no lanes." : "Because " + lanes[0].trouble + ".");
  }
  lanes_.resize(lanes[0].spec->lanes());
  for (LaneRecord& lane : lanes) {
    size_t number = static_cast<size_t>(lane.lane);
    if (number < lanes_.size()) {
      lanes_[number] = std::move(lane);
    }
  }
}

RouteEvents::Fate RouteEvents::FateOf(const WalkedEvent& event, Older older) const {
  std::string id, type, event_type, topic;
  std::string_view aggregate_id = event.aggregate_id;
  std::string_view aggregate_type = event.aggregate_type;
  std::string_view happened = event.event_type;
  std::string_view own_topic = event.topic;
  if (!pg::SpeaksUtf8()) {
    // Lanes compare in UTF-8.
    aggregate_type = type = Utf8(event.aggregate_type);
    happened = event_type = Utf8(event.event_type);
    if (!IsNull(event.aggregate_id)) {
      aggregate_id = id = Utf8(event.aggregate_id);
    }
    if (!IsNull(event.topic)) {
      own_topic = topic = Utf8(event.topic);
    }
  }
  const LaneRecord& lane = lanes_[format::LaneOf(aggregate_id, event.id, static_cast<uint32>(lanes_.size()))];
  const bool before_start = lane.spec != nullptr && lane.BeforeStart(event.xid, event.created_at);
  if (lane.spec == nullptr || (before_start && older == Older::kNotOurs) ||
      !lane.spec->Wants(aggregate_type, aggregate_id, happened, event.id, own_topic)) {
    return Fate::kNotOurs;
  }
  if (event.forgotten) {
    return Fate::kForgotten;
  }
  if (std::binary_search(parked_.begin(), parked_.end(), event.created_at)) {
    return Fate::kParked;
  }
  if (std::binary_search(given_up_.begin(), given_up_.end(), event.created_at)) {
    return Fate::kGivenUp;
  }
  if (before_start) {
    return Fate::kOlder;
  }
  EventFacts facts{event.xid, event.created_at, aggregate_type, aggregate_id, happened, own_topic};
  switch (lane.PassageOf(facts, event.id).kind) {
    case Passage::Kind::kDelivered:
      return Fate::kDelivered;
    case Passage::Kind::kPassedOver:
      return Fate::kPassedOver;
    case Passage::Kind::kPending:
      break;
  }
  return Fate::kPending;
}

std::vector<int64> SettledSince(int64 route_id, int64 time) {
  return std::move(
      Times("SELECT route_id, created_at FROM outbox_internal.outcome WHERE replay = 0 AND outcome <> 'lost' "
            "AND at > '" +
                UnixMicrosText(time) + "'::timestamptz",
            route_id)[route_id]);
}

std::optional<int64> OldestRetained() {
  std::vector<Row> rows =
      RunSql(Access::kWrite,
             "SELECT (extract(epoch FROM least((SELECT min(day)::timestamp FROM outbox_internal.log_table), "
             "(SELECT min(created_at) AT TIME ZONE 'UTC' FROM outbox_internal.log_spare))) * 1000000)::bigint");
  return rows[0][0] ? std::optional<int64>(Number(rows[0][0])) : std::nullopt;
}

}  // namespace outbox::admin
