// Parking: how rows come into outbox_internal.parked [P]. (Copies of a replay come by admin/operate/replay_copy.)
#include "parked/nothing_parked.h"
#include "parked/rows.h"
#include "parked/statements.h"
#include "pg/sql.h"

namespace outbox::parked {

using namespace pg::sql;

namespace {

// A portion of a batch: arrays must stay far below the largest allocation.
constexpr size_t kPortionRows = 512;
constexpr size_t kPortionBytes = size_t{32} << 20;

Datum Signed(uint64_t key) {
  return Int64GetDatum(static_cast<int64>(key));
}

const char* StateName(relay::ParkedState state) {
  switch (state) {
    case relay::ParkedState::kRetrying:
      return "retrying";
    case relay::ParkedState::kBlocked:
      return "blocked";
    case relay::ParkedState::kScheduled:
      return "scheduled";
    case relay::ParkedState::kDead:
      return "dead";
  }
  return "dead";
}

// The columns of rows to be, as arrays.
class NewRows {
 public:
  explicit NewRows(size_t rows)
      : created_at_(rows),
        id_(rows),
        state_(rows),
        key_(rows),
        due_(rows),
        aggregate_type_(rows),
        aggregate_id_(rows),
        event_type_(rows),
        payload_(rows),
        content_type_(rows),
        headers_(rows),
        own_topic_(rows),
        topic_(rows),
        attempts_(rows),
        error_(rows),
        xid_(rows),
        deliver_at_(rows) {}

  void Add(const relay::Parking& parking) {
    const Event& event = parking.event;
    created_at_.Add(TimeDatum(event.created_at));
    id_.Add(UuidDatum(event.id));
    state_.Add(CStringGetTextDatum(StateName(parking.state)));
    parking.order_key == 0 ? key_.AddNull() : key_.Add(Signed(parking.order_key));
    HasDue(parking.state) ? due_.Add(TimeDatum(parking.due)) : due_.AddNull();
    aggregate_type_.AddText(event.aggregate_type);
    aggregate_id_.AddText(event.aggregate_id);
    event_type_.AddText(event.event_type);
    IsNull(event.payload) ? payload_.AddNull() : payload_.Add(TextDatum(event.payload));
    content_type_.AddText(event.content_type);
    IsNull(event.headers.packed) ? headers_.AddNull() : headers_.Add(HeadersDatum(event.headers));
    own_topic_.AddText(event.topic);
    topic_.Add(ServerText(parking.topic));
    attempts_.Add(Int32GetDatum(parking.attempts));
    error_.Add(parking.error);
    event.xid == 0 ? xid_.AddNull() : xid_.Add(Int64GetDatum(static_cast<int64>(event.xid)));
    event.deliver_at == 0 ? deliver_at_.AddNull() : deliver_at_.Add(TimeDatum(event.deliver_at));
  }

  // In the order of insert_parked, from $4 on.
  void AddTo(Arguments* arguments) {
    arguments->Add(created_at_.Array(TIMESTAMPTZOID));
    arguments->Add(id_.Array(UUIDOID));
    arguments->Add(state_.Array(TEXTOID));
    arguments->Add(key_.Array(INT8OID));
    arguments->Add(due_.Array(TIMESTAMPTZOID));
    arguments->Add(aggregate_type_.Array(TEXTOID));
    arguments->Add(aggregate_id_.Array(TEXTOID));
    arguments->Add(event_type_.Array(TEXTOID));
    arguments->Add(payload_.Array(BYTEAOID));
    arguments->Add(content_type_.Array(TEXTOID));
    arguments->Add(headers_.Array(JSONBOID));
    arguments->Add(own_topic_.Array(TEXTOID));
    arguments->Add(topic_.Array(TEXTOID));
    arguments->Add(attempts_.Array(INT4OID));
    error_.AddTo(arguments);
    arguments->Add(xid_.Array(INT8OID));
    arguments->Add(deliver_at_.Array(TIMESTAMPTZOID));
  }

 private:
  Column created_at_, id_, state_, key_, due_, aggregate_type_, aggregate_id_, event_type_, payload_, content_type_;
  Column headers_, own_topic_, topic_, attempts_;
  ErrorColumns error_;
  Column xid_, deliver_at_;
};

Statement insert_parked = {
    "INSERT INTO outbox_internal.parked AS p (route_id, lane, created_at, id, state, order_key, due_at, aggregate_type,"
    " aggregate_id, event_type, payload, content_type, headers, own_topic, topic, attempts, error_class, error_code,"
    " error_message, failed_at, xid, deliver_at)"
    " SELECT l.route_id, l.lane, e.created_at, e.id, e.state, e.order_key, e.due_at, e.aggregate_type, "
    "e.aggregate_id,"
    " e.event_type, e.payload, e.content_type, e.headers, e.own_topic, e.topic, e.attempts, e.error_class,"
    " e.error_code, e.error_message, CASE WHEN e.error_class IS NULL THEN NULL ELSE clock_timestamp() END,"
    " e.xid::text::xid8, e.deliver_at"
    " FROM outbox_internal.lane l CROSS JOIN ROWS FROM (unnest($4), unnest($5), unnest($6),"
    " unnest($7), unnest($8), unnest($9), unnest($10),"
    " unnest($11), unnest($12), unnest($13), unnest($14),"
    " unnest($15), unnest($16), unnest($17), unnest($18),"
    " unnest($19), unnest($20), unnest($21), unnest($22))"
    " AS e(created_at, id, state, order_key, due_at, aggregate_type, aggregate_id, event_type, payload, content_type,"
    " headers, own_topic, topic, attempts, error_class, error_code, error_message, xid,"
    " deliver_at)"
    " WHERE l.route_id = $1 AND l.lane = $2"
    " AND l.owner = $3"
    " ON CONFLICT (route_id, created_at, id, replay) DO UPDATE SET lane = excluded.lane,"
    " state = CASE WHEN p.state = 'blocked' AND excluded.error_class IS NOT NULL"
    " THEN excluded.state ELSE p.state END,"
    " due_at = CASE WHEN p.state = 'blocked' AND excluded.error_class IS NOT NULL"
    " THEN excluded.due_at ELSE p.due_at END,"
    " topic = excluded.topic, order_key = excluded.order_key,"
    " attempts = greatest(p.attempts, excluded.attempts),"
    " error_class = coalesce(excluded.error_class, p.error_class),"
    " error_code = CASE WHEN excluded.error_class IS NULL THEN p.error_code ELSE excluded.error_code END,"
    " error_message = CASE WHEN excluded.error_class IS NULL THEN p.error_message ELSE excluded.error_message END,"
    " failed_at = coalesce(excluded.failed_at, p.failed_at)",
    22,
    {INT8OID,      INT4OID,
     INT8OID,      TIMESTAMPTZARRAYOID,
     UUIDARRAYOID, TEXTARRAYOID,
     INT8ARRAYOID, TIMESTAMPTZARRAYOID,
     TEXTARRAYOID, TEXTARRAYOID,
     TEXTARRAYOID, BYTEAARRAYOID,
     TEXTARRAYOID, JSONBARRAYOID,
     TEXTARRAYOID, TEXTARRAYOID,
     INT4ARRAYOID, TEXTARRAYOID,
     TEXTARRAYOID, TEXTARRAYOID,
     INT8ARRAYOID, TIMESTAMPTZARRAYOID},
    nullptr};

bool InsertPortion(const ParkedOwner& owner, std::span<const relay::Parking> events) {
  NewRows rows(events.size());
  for (const relay::Parking& parking : events) {
    rows.Add(parking);
  }
  Arguments arguments;
  arguments.Add(Int64GetDatum(owner.lane.route_id));
  arguments.Add(Int32GetDatum(owner.lane.lane));
  arguments.Add(Int64GetDatum(static_cast<int64>(owner.incarnation)));
  rows.AddTo(&arguments);
  RunStatement(&insert_parked, arguments.values, arguments.nulls);
  return SPI_processed == events.size();
}

}  // namespace

bool InsertParked(const ParkedOwner& owner, std::span<const relay::Parking> events) {
  NothingParked::ForgetAll();
  size_t first = 0;
  while (first < events.size()) {
    size_t bytes = 0;
    size_t last = first;
    while (last < events.size() && last - first < kPortionRows && bytes < kPortionBytes) {
      bytes += events[last++].event.bytes();
    }
    if (!InsertPortion(owner, events.subspan(first, last - first))) {
      return false;
    }
    first = last;
  }
  return true;
}

}  // namespace outbox::parked
