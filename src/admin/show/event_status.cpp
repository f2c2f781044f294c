// outbox.status(id): what became of one event on each route [P].
//
// What is known of an event comes from four places: outbox_internal.parked and outbox_internal.outcome know events that
// were refused, delayed or replayed; of all others the position of the lane tells whether they are delivered, and the
// row of outbox_internal.progress that first covers them tells between which offsets.
#include <algorithm>
#include <cstring>

#include "admin/common/query.h"
#include "admin/common/text_encoding.h"
#include "admin/lookup/find_event.h"
#include "admin/lookup/former_filters.h"
#include "admin/lookup/pauses.h"
#include "admin/lookup/processes.h"
#include "admin/lookup/row_holder.h"
#include "admin/lookup/shared_views.h"
#include "admin/show/side_trouble.h"
#include "pg/entry.h"
#include "pg/settings.h"
#include "pg/trouble_hints.h"
#include "pg/wall.h"

extern "C" {
#include "access/xlog.h"
}

namespace {

using namespace outbox::admin;

// Columns of the result.
enum Column : size_t {
  kRoute,
  kLane,
  kState,
  kCreatedAt,
  kTopic,
  kAttempts,
  kErrorClass,
  kErrorCode,
  kErrorMessage,
  kErrorSince,
  kNextTry,
  kDeliveredAt,
  kPlace,
  kPlaces,
  kWindowFrom,
  kWindowTo,
  kReplay,
  kReason,
  kColumns
};

// A row of outbox_internal.parked or outbox_internal.outcome.
struct Trace {
  int64 route_id = 0;
  int64 created_at = 0;
  bool parked = false;
  Row row = Row(kColumns);  // the part of the answer that it gives
  std::string server;
  std::string aggregate_type;
  Cell aggregate_id;
  int64 due = 0;  // of a scheduled one, and of one that was never refused and whose turn has come; 0: it is neither
  Cell xmax;      // of a parked one: who has locked its row
};

// The event itself before its replays; what is parked before what has left.
std::vector<Trace> LoadTraces(const std::string& id) {
  std::vector<Trace> traces;
  for (const Row& found :
       RunSql(Access::kRead,
              "SELECT p.route_id, (extract(epoch FROM p.created_at) * 1000000)::bigint, 't', r.name, p.lane, p.state, "
              "p.topic, p.attempts, p.error_class, p.error_code, p.error_message, "
              "(extract(epoch FROM coalesce(p.failed_at, p.parked_at)) * 1000000)::bigint, "
              "(extract(epoch FROM p.due_at) * 1000000)::bigint, NULL, NULL, p.replay, r.server, p.aggregate_type, "
              "p.aggregate_id, p.xmax::text, p.failed_at FROM outbox_internal.parked p JOIN outbox.route r ON r.id = "
              "p.route_id "
              "WHERE p.id = $1::uuid "
              "UNION ALL "
              "SELECT o.route_id, (extract(epoch FROM o.created_at) * 1000000)::bigint, 'f', r.name, NULL, o.outcome, "
              "o.topic, o.attempts, o.error_class, o.error_code, o.error_message, NULL, NULL, (extract(epoch FROM "
              "o.at) * 1000000)::bigint, o.place, "
              "o.replay, r.server, '', NULL, NULL, NULL FROM outbox_internal.latest_outcome o JOIN outbox.route r ON "
              "r.id = "
              "o.route_id "
              "WHERE o.id = $1::uuid ORDER BY 16, 3 DESC, 14 DESC",
              {Cell(id)})) {
    Trace trace;
    trace.route_id = Number(found[0]);
    trace.created_at = Number(found[1]);
    trace.parked = found[2] == "t";
    trace.row[kRoute] = found[3];
    trace.row[kLane] = found[4];
    trace.row[kState] = found[5];
    trace.row[kCreatedAt] = UnixMicrosCell(trace.created_at);
    trace.row[kTopic] = found[6];
    trace.row[kAttempts] = found[7];
    trace.row[kErrorClass] = found[8];
    trace.row[kErrorCode] = found[9];
    trace.row[kErrorMessage] = found[10];
    trace.row[kErrorSince] = found[8] && found[11] ? UnixMicrosCell(Number(found[11])) : Cell();
    trace.row[kNextTry] = UnixMicrosCell(Number(found[12]));
    trace.due = found[5] == "scheduled" || (found[5] == "retrying" && !found[20]) ? Number(found[12]) : 0;
    trace.row[kDeliveredAt] = found[5] == "delivered" ? UnixMicrosCell(Number(found[13])) : Cell();
    trace.row[kPlace] = found[14];
    trace.row[kReplay] = found[15];
    trace.server = found[16].value();
    trace.aggregate_type = found[17].value();
    trace.aggregate_id = found[18];
    trace.xmax = found[19];
    traces.push_back(std::move(trace));
  }
  return traces;
}

// The event of its key that goes first; nothing: none, and it will be let go.
Cell BehindWhom(const Trace& trace, const std::string& id) {
  static PlannedQuery query = {
      "SELECT h.id, CASE WHEN h.state = 'retrying' AND h.error_class IS NULL AND h.due_at <= $5::timestamptz "
      "THEN 'due' ELSE h.state END, (SELECT "
      "l.xmax::text FROM outbox_internal.parked l WHERE l.route_id = p.route_id AND "
      "l.created_at = h.created_at AND l.id = h.id AND l.replay = h.replay) FROM outbox_internal.parked p JOIN "
      "outbox.route r ON r.id = p.route_id CROSS JOIN LATERAL "
      "outbox_internal.key_head(p.route_id, p.order_key, r.on_failure = 'block', p.created_at, p.replay, p.id) h "
      "WHERE p.route_id = $1::bigint AND p.id = $2::uuid AND p.replay = $3::bigint "
      "AND p.created_at = timestamptz 'epoch' + $4::bigint * interval '1 microsecond'",
      outbox::admin::Plan::kByKey};
  const std::vector<Row> rows =
      RunPlanned(&query, {Cell(std::to_string(trace.route_id)), Cell(id), trace.row[kReplay],
                          Cell(std::to_string(trace.created_at)), UnixMicrosCell(outbox::pg::BelievedWall())});
  if (rows.empty()) {
    return Cell();
  }
  const Cell holder = HolderOfRow(rows[0][2]);
  return "waits behind event " + rows[0][0].value() + (holder ? ": " + *holder : ", which is " + rows[0][1].value());
}

// Why it does not go: what people have said about it, or what it waits for.
void AddReason(const Trace& trace, const std::vector<Pause>& pauses, const std::string& id, Row* row) {
  if (trace.parked) {
    if (const Pause* pause = FindEventPause(pauses, trace.route_id, trace.server, row->at(kTopic).value_or(""),
                                            trace.aggregate_type, trace.aggregate_id)) {
      row->at(kReason) = pause->reason;
    } else if (const Cell holder = HolderOfRow(trace.xmax)) {
      row->at(kReason) = holder;
    } else if (row->at(kState) == "blocked") {
      row->at(kReason) = BehindWhom(trace, id);
    }
  } else if (row->at(kState) != "delivered") {
    static PlannedQuery query = {
        "SELECT a.reason FROM outbox.audit a WHERE a.event_id = $1::uuid AND a.action IN ('skip', 'discard') "
        "AND (a.route = $2 OR EXISTS (SELECT FROM outbox_internal.route_of_name(a.route, a.at) n WHERE n.route_id = "
        "$3::bigint)) ORDER BY a.at DESC LIMIT 1"};
    const std::vector<Row> rows = RunPlanned(&query, {Cell(id), row->at(kRoute), Cell(std::to_string(trace.route_id))});
    if (!rows.empty()) {
      row->at(kReason) = rows[0][0];
    }
  }
}

// A row of the answer about an event that a lane has delivered, and where in outbox_internal.progress that is told.
struct Delivery {
  size_t row = 0;  // of the answer
  const LaneRecord* lane = nullptr;
  Passage passage;
};

// For each delivery, which it may narrow down, the row of progress that speaks of it: of the lane that delivered it, in
// the time in which it did, the first of its own that covers it, unless that names other topics only; then a side lane
// has delivered it. Rows before the lane was put back to where the event is still to come mean nothing. Where the first
// rows since the event was made are not kept any more, the first that is kept may be of another time: then nothing is
// said.
//
// One statement for all of them: planning it for each of a hundred routes takes longer than all else.
void AddWindows(const FoundEvent& event, std::vector<Delivery>* deliveries, std::vector<Row>* answer) {
  if (deliveries->empty()) {
    return;
  }
  auto covers = [](const std::string& g) { return CoversSql(g, "$1", "$2") + " "; };
  std::vector<std::string> routes, lanes, after, since, until, topics;
  int64 first = PG_INT64_MAX;
  for (const Delivery& one : *deliveries) {
    const int64 from = std::max(one.passage.after, event.created_at - 1);
    first = std::min(first, from);
    routes.push_back(std::to_string(one.lane->route_id));
    lanes.push_back(std::to_string(one.passage.lane));
    after.push_back(TimeText(one.passage.after));
    since.push_back(TimeText(from));
    until.push_back(TimeText(one.passage.until));
    topics.push_back((*answer)[one.row][kTopic].value_or(""));
  }
  // A literal for the planner, which then opens only the days since the event; its digits are made here.
  auto within = [&](const std::string& g) {
    return g + ".at > '" + UnixMicrosText(first) + "'::timestamptz AND " + g + ".at > x.since AND " + g +
           ".at <= x.until ";
  };
  const std::string covering =
      "SELECT g.* FROM outbox_internal.progress g WHERE g.route_id = x.route_id AND g.lane = x.lane AND " +
      within("g") + "AND " + covers("g") +
      // a rewind follows the record of the run; the clock of events may be a little ahead of the server's
      "AND NOT (EXISTS (SELECT FROM outbox_internal.server_run s WHERE s.met_at > g.at - interval '1 hour') AND EXISTS "
      "(SELECT FROM outbox_internal.progress m "
      "WHERE m.route_id = g.route_id AND m.lane = g.lane AND m.side = 0 AND m.survived IS NOT NULL AND m.at > g.at "
      "AND " +
      within("m") + "AND NOT " + covers("m") + ")) ";
  const std::string known =
      "EXISTS (SELECT FROM jsonb_object_keys(g.places) k WHERE k = x.topic OR left(k, length(x.topic) + 1) = x.topic "
      "|| '/')";
  const std::string sql =
      "SELECT x.n - 1, w.* FROM ROWS FROM (unnest($3::bigint[]), unnest($4::integer[]), unnest($5::timestamptz[]), "
      "unnest($6::timestamptz[]), unnest($7::timestamptz[]), unnest($8::text[])) WITH ORDINALITY "
      "x (route_id, lane, after, since, until, topic, n) CROSS JOIN LATERAL (WITH own AS (" +
      covering + "AND g.side = 0 ORDER BY g.at LIMIT 1), other AS (" + covering + "AND g.side > 0 AND " + known +
      " ORDER BY g.at LIMIT 1) "
      "SELECT (extract(epoch FROM g.at) * 1000000)::bigint, "
      "(SELECT b.window_from FROM outbox_internal.progress b WHERE b.route_id = g.route_id AND b.lane = g.lane "
      " AND b.side = g.side AND b.at < g.at AND b.at > x.after ORDER BY b.at DESC LIMIT 1), "
      "coalesce(g.window_to, g.window_from), "
      "(SELECT jsonb_object_agg(e.key, e.value) FROM jsonb_each(g.places) e "
      " WHERE e.key = x.topic OR (left(e.key, length(x.topic) + 1) = x.topic || '/' "
      "  AND substr(e.key, length(x.topic) + 2) ~ '^[0-9]+$')), g.by_side "
      "FROM (SELECT g.*, false AS by_side FROM own g WHERE g.places ? '...' OR " +
      known +
      " UNION ALL SELECT o.*, true FROM other o UNION ALL SELECT own.*, false FROM own LIMIT 1) g) w "
      "WHERE EXISTS (SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
      " WHERE i.inhparent = 'outbox_internal.progress'::regclass AND right(c.relname, 8) <= "
      " to_char((timestamptz 'epoch' + $2::bigint * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYYMMDD'))";
  for (const Row& found : RunSql(Access::kRead, sql.c_str(),
                                 {Cell(std::to_string(event.xid)), Cell(std::to_string(event.created_at)),
                                  TextArrayLiteral(routes), TextArrayLiteral(lanes), TextArrayLiteral(after),
                                  TextArrayLiteral(since), TextArrayLiteral(until), TextArrayLiteral(topics)},
                                 outbox::admin::Plan::kByKey)) {
    Delivery& one = (*deliveries)[static_cast<size_t>(Number(found[0]))];
    one.passage.until = std::min(one.passage.until, Number(found[1]));
    one.passage.by_side = found[5] == "t";
    Row& row = (*answer)[one.row];
    row[kDeliveredAt] = UnixMicrosCell(Number(found[1]));
    row[kWindowFrom] = found[2];
    row[kWindowTo] = found[3];
    row[kPlaces] = found[4];
  }
}

// Where the lane may have passed the event before the route wanted it.
void Doubt(const FormerFilters& former, const FoundEvent& event, const Delivery& delivery, Row* row) {
  if (const auto since = former.WantedSince(*delivery.lane, event, delivery.passage, (*row)[kWindowFrom])) {
    for (const Column column : {kDeliveredAt, kPlaces, kWindowFrom, kWindowTo}) {
      (*row)[column] = Cell();
    }
    (*row)[kState] = "not known";
    (*row)[kReason] = "the route has wanted it since outbox.alter_route() at " + UnixMicrosText(*since) +
                      ", and may have passed it before; outbox.replay() sends it";
  }
}

// Where its lane had another topic template then: places are those of the topic that it went to.
void AddFormerTopics(const FormerTopics& former, const FoundEvent& event, const std::vector<Delivery>& deliveries,
                     std::vector<Row>* answer) {
  std::vector<Delivery> elsewhere;
  for (const Delivery& one : deliveries) {
    Row& row = (*answer)[one.row];
    const int64 delivered = row[kDeliveredAt] ? one.passage.until : 0;
    if (const std::optional<Cell> topic = former.Of(*one.lane, event, one.passage, delivered, row[kWindowFrom])) {
      row[kTopic] = *topic;
      row[kPlaces] = Cell();
      if (*topic) {
        elsewhere.push_back(one);
      }
    }
  }
  AddWindows(event, &elsewhere, answer);
}

// The row for an event that was never parked on the route; AddWindows() adds what progress tells of it.
Row RowOf(const LaneRecord& lane, const FoundEvent& event, const Passage& passage, const OwnedLaneView* view,
          const std::vector<Pause>& pauses) {
  Row row(kColumns);
  row[kRoute] = lane.route;
  row[kLane] = std::to_string(lane.lane);
  row[kCreatedAt] = UnixMicrosCell(event.created_at);
  row[kTopic] = TopicOf(lane, event);
  row[kReplay] = "0";
  row[kAttempts] = "0";
  row[kState] = event.mine                                   ? "uncommitted"
                : passage.kind == Passage::Kind::kDelivered  ? "delivered"
                : passage.kind == Passage::Kind::kPassedOver ? "passed over"
                                                             : "pending";
  if (row[kState] == "passed over") {
    row[kReason] = std::string("the route was moved behind it by ") +
                   (passage.by->reason == "adopt" ? "outbox.adopt(keep_positions => false)" : "outbox.seek()") +
                   " at " + UnixMicrosText(passage.by->at) +
                   (passage.by->reason == "adopt" ? ", or by outbox.seek() in the original" : "") +
                   "; outbox.replay() sends it";
  } else if (row[kState] == "pending") {
    const Pause* pause =
        FindEventPause(pauses, lane.route_id, lane.server, row[kTopic].value_or(""), FromUtf8(event.aggregate_type),
                       event.aggregate_id ? Cell(FromUtf8(*event.aggregate_id)) : Cell());
    if (pause != nullptr) {
      row[kState] = "paused";
      row[kReason] = pause->reason;
    } else if (lane.restored) {
      row[kReason] = "this outbox is a copy: nothing is published before outbox.adopt()";
    } else if (view == nullptr || !view->owned) {
      row[kReason] = WhyNobodyWorks();
    }
    if (!lane.works()) {  // as outbox.lag has it
      row[kErrorClass] = "config";
      row[kErrorCode] = "BAD_ROUTE";
      row[kErrorMessage] = lane.trouble;
    } else if (view != nullptr && view->owned) {
      row[kErrorClass] = TextCell(ErrorClassName(view->trouble.error_class));
      row[kErrorCode] = TextCell(view->trouble.code);
      row[kErrorMessage] = TextCell(view->trouble.message);
      row[kErrorSince] = UnixMicrosCell(view->error_since_unix);
      row[kNextTry] = UnixMicrosCell(view->next_try_unix);
    }
  }
  return row;
}

// What the topic of a parked event that is due was refused with, when one before it was tried; nothing: it was not.
// They are tried in the order in which they are due, a few hundred at a time.
Row TroubleOfTopic(const Trace& trace) {
  static PlannedQuery query = {
      "SELECT d.error_class, d.error_code, d.error_message, (extract(epoch FROM d.failed_at) * 1000000)::bigint FROM "
      "((SELECT p.topic, p.failed_at, p.error_class, p.error_code, p.error_message FROM outbox_internal.due_keyed p "
      "WHERE p.route_id = $1::bigint AND p.lane = $2::integer ORDER BY p.due_at, p.created_at LIMIT 1000) UNION ALL "
      "(SELECT p.topic, p.failed_at, p.error_class, p.error_code, p.error_message FROM outbox_internal.due_shared p "
      "WHERE p.route_id = $1::bigint ORDER BY p.due_at, p.created_at LIMIT 1000)) d "
      "WHERE d.topic = $3 AND d.error_class = 'topic' ORDER BY d.failed_at DESC LIMIT 1",
      outbox::admin::Plan::kByKey};
  const std::vector<Row> rows =
      RunPlanned(&query, {Cell(std::to_string(trace.route_id)), trace.row[kLane], trace.row[kTopic]});
  return rows.empty() ? Row() : rows[0];
}

// Whether that server, rather than something of this one, keeps from going what has an error of that class.
bool WaitsForDestination(const Cell& error_class, const OwnedLaneView* view) {
  if (error_class == "destination" || error_class == "fatal client" || view == nullptr) {
    return true;
  }
  const std::vector<OwnedDestinationView> all = ReadDestinationViews(MyDatabaseId);
  return std::any_of(all.begin(), all.end(), [view](const OwnedDestinationView& one) {
    return one.owned && one.server == view->server && one.state != outbox::BreakerState::kClosed;
  });
}

// A scheduled event whose time has come, or one whose turn has: it is about to go, or waits for its topic or its
// destination.
void AddDue(Trace* trace, const std::vector<LaneRecord>& lanes, const LaneViews& views,
            const std::vector<Pause>& pauses) {
  Row& row = trace->row;
  if (trace->due == 0 || trace->due > outbox::pg::BelievedWall()) {
    return;
  }
  row[kState] = "due";
  row[kNextTry] = Cell();
  const auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const LaneRecord& one) {
    return one.route_id == trace->route_id && row[kLane] == std::to_string(one.lane);
  });
  const int side = lane == lanes.end() ? -1 : lane->SideOfTopic(row[kTopic].value_or(""));
  const SideRecord* left = side < 0 ? nullptr : &lane->sides[static_cast<size_t>(side)];
  const OwnedLaneView* view =
      lane == lanes.end() ? nullptr : views.Find(lane->route_id, lane->lane, left == nullptr ? 0 : left->side);
  const bool troubled = view != nullptr && view->owned && !view->trouble.empty();
  // Its own word, its topic's, its lane's: each only where there is none before it.
  if (!row[kErrorClass] && left != nullptr) {
    if (const SideTrouble now = TroubleOf(*lane, *left, row[kTopic].value_or(""), view, pauses);
        !now.error_code.empty()) {
      row[kErrorClass] = now.error_class;
      row[kErrorCode] = now.error_code;
      row[kErrorMessage] = now.error_message;
      row[kErrorSince] = now.since;
    }
  } else if (!row[kErrorClass]) {
    if (const Row found = TroubleOfTopic(*trace); !found.empty()) {
      std::copy_n(found.begin(), 3, row.begin() + kErrorClass);
      row[kErrorSince] = UnixMicrosCell(Number(found[3]));
    } else if (troubled && view->trouble.error_class != outbox::ErrorClass::kTopic) {
      row[kErrorClass] = TextCell(ErrorClassName(view->trouble.error_class));
      row[kErrorCode] = TextCell(view->trouble.code);
      row[kErrorMessage] = TextCell(view->trouble.message);
      row[kErrorSince] = UnixMicrosCell(view->error_since_unix);
    }
  }
  if (troubled) {
    row[kNextTry] = UnixMicrosCell(view->next_try_unix);
  }
  if (row[kErrorClass] == "topic") {
    row[kReason] = "waits for topic \"" + row[kTopic].value_or("") + "\"";
  } else if (row[kErrorClass]) {
    row[kReason] = WaitsForDestination(row[kErrorClass], view) ? "waits for destination \"" + trace->server + "\""
                                                               : "waits for what error_message says";
  } else if (view == nullptr || !view->owned) {
    row[kReason] = WhyNobodyWorks();
  }
}

// What the tables have about the event itself (not a replay) on that route; nullptr: nothing.
Trace* FindTrace(std::vector<Trace>* traces, int64 route_id, int64 created_at) {
  for (Trace& trace : *traces) {
    if (trace.route_id == route_id && trace.created_at == created_at && trace.row[kReplay] == "0") {
      return &trace;
    }
  }
  return nullptr;
}

// Where nothing is known of it, there may still be something: no rows would say that there is not.
void TellUnreadable(const std::vector<UnreadableTable>& tables, bool known) {
  const std::string names = NamesOf(tables);
  const std::string detail = DetailOf(tables);
  if (!known) {
    throw outbox::pg::UserError{
        ERRCODE_DATA_CORRUPTED, "what became of the event cannot be told: " + names + " cannot be read",
        detail + " In no other table of the log is an event of that id.", outbox::pg::kUnreadableHint};
  }
  const char* n = names.c_str();
  const char* d = detail.c_str();
  outbox::pg::Guard([n, d] {
    ereport(WARNING, (errmsg("not all of what is known of the event may be told: %s cannot be read", n),
                      errdetail("%s", d), errhint("%s", outbox::pg::kUnreadableHint)));
  });
}

}  // namespace

OUTBOX_FUNCTION(outbox_status) {
  ResultSet result(fcinfo);
  result.Begin();
  if (PG_ARGISNULL(0)) {
    return static_cast<Datum>(0);
  }
  outbox::Uuid id;
  outbox::pg::Guard([&] { memcpy(id.data(), PG_GETARG_UUID_P(0)->data, id.size()); });
  std::string id_text = outbox::UuidText(id);
  std::vector<Trace> traces = LoadTraces(id_text);
  std::vector<Pause> pauses = LoadPauses();
  std::vector<LaneRecord> lanes = LoadLanes(std::nullopt);
  const std::vector<OwnedLaneView> read = ReadLaneViews(MyDatabaseId);
  const LaneViews views(read);
  std::vector<UnreadableTable> unreadable;
  const std::vector<FoundEvent> events = FindEvents(Access::kRead, id, &unreadable);
  if (!unreadable.empty()) {
    TellUnreadable(unreadable, !events.empty() || !traces.empty());
  }
  for (const FoundEvent& event : events) {
    bool routed = false;
    std::vector<Row> answer;
    std::vector<Delivery> deliveries;
    const std::vector<FormerOption> options = FormerOptions(event.created_at);
    const FormerFilters former(options);
    const FormerTopics former_topics(options);
    for (const LaneRecord& lane : lanes) {
      const bool takes = Takes(lane, event);
      for (Trace& trace : traces) {
        if (takes && trace.route_id == lane.route_id && trace.created_at == event.created_at && !trace.row[kLane]) {
          trace.row[kLane] = std::to_string(lane.lane);
        }
      }
      if (FindTrace(&traces, lane.route_id, event.created_at) != nullptr) {
        routed = true;  // below
      } else if (takes) {
        routed = true;
        int side = lane.SideOf(FactsOf(event));
        int number = side < 0 ? 0 : lane.sides[static_cast<size_t>(side)].side;
        const Passage passage = lane.PassageOf(FactsOf(event), event.id);
        answer.push_back(RowOf(lane, event, passage, views.Find(lane.route_id, lane.lane, number), pauses));
        if (answer.back()[kState] == "delivered") {
          deliveries.push_back({answer.size() - 1, &lane, passage});
        }
      }
    }
    AddWindows(event, &deliveries, &answer);
    AddFormerTopics(former_topics, event, deliveries, &answer);
    for (const Delivery& one : deliveries) {
      Doubt(former, event, one, &answer[one.row]);
    }
    for (const Row& row : answer) {
      result.Add(row);
    }
    if (!routed) {
      Row row(kColumns);
      row[kState] = "not routed";
      row[kCreatedAt] = UnixMicrosCell(event.created_at);
      result.Add(row);
    }
  }
  // Includes events whose day has gone from the log, and routes that would not take them by themselves.
  for (Trace& trace : traces) {
    Trace* first = trace.row[kReplay] == "0" ? FindTrace(&traces, trace.route_id, trace.created_at) : &trace;
    if (first == &trace) {
      AddDue(&trace, lanes, views, pauses);
      AddReason(trace, pauses, id_text, &trace.row);
      result.Add(trace.row);
    }
  }
  return static_cast<Datum>(0);
}
