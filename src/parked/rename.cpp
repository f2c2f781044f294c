// Rows that were parked while the route's topic was another [P].
#include "base/order_key.h"
#include "parked/portions.h"
#include "parked/statements.h"
#include "pg/encoding.h"
#include "pg/key_secret.h"
#include "pg/sql.h"

namespace outbox::parked {

using namespace pg::sql;

namespace {

bool IsTemplate(const ParkedOwner& owner, const format::RouteSpec& spec) {
  static Statement query = {"SELECT FROM outbox.route WHERE id = $1 AND topic = $2", 2, {INT8OID, TEXTOID}, nullptr};
  Datum values[] = {Int64GetDatum(owner.lane.route_id), ServerText(spec.topic_text())};
  RunStatement(&query, values);
  return SPI_processed == 1;
}

// Fills *event from a row of the last result: both types, the key and, in the column after them, the topic. Returns
// whether the template gives it that one.
bool IsNamedSo(uint64 number, int column, format::RecordFormat* format, Event* event) {
  const ResultRow row = TakeRow(number);
  const auto text = [&](int at) {
    const char* value = ResultText(row, at);
    return value == nullptr ? std::string_view() : pg::Utf8(value);
  };
  event->aggregate_type = text(column);
  event->event_type = text(column + 1);
  event->aggregate_id = text(column + 2);
  return format->Topic(*event) == text(column + 3);
}

// Whether all of these keys, as far as their first rows tell, are by this template. Those with a topic of their own
// tell nothing; behind a hundred of them is not looked.
bool AreNamedSo(const ParkedOwner& owner, bool block, const std::vector<uint64_t>& keys, format::RecordFormat* format) {
  static Statement first = {
      "SELECT p.aggregate_type, p.event_type, p.aggregate_id, p.topic FROM unnest($2) k(key) CROSS JOIN LATERAL"
      " (SELECT p.* FROM ((SELECT w.created_at, w.replay, w.id FROM outbox_internal.waiting w WHERE w.route_id = $1"
      " AND w.order_key = k.key ORDER BY w.created_at, w.replay, w.id LIMIT 100)"
      " UNION ALL SELECT d.created_at, d.replay, d.id FROM outbox_internal.key_dead($1, k.key, $3) d) f"
      " JOIN outbox_internal.parked p ON p.route_id = $1 AND p.created_at = f.created_at AND p.id = f.id"
      " AND p.replay = f.replay WHERE p.own_topic IS NULL LIMIT 1) p",
      3,
      {INT8OID, INT8ARRAYOID, BOOLOID},
      nullptr};
  Column key(keys.size());
  for (const uint64_t order_key : keys) {
    key.Add(Int64GetDatum(static_cast<int64>(order_key)));
  }
  Datum values[] = {Int64GetDatum(owner.lane.route_id), key.Array(INT8OID), BoolGetDatum(block)};
  RunStatement(&first, values);
  Event event;
  for (uint64 row = 0; row < SPI_processed; row++) {
    if (!IsNamedSo(row, 0, format, &event)) {
      return false;
    }
  }
  return true;
}

// Rows of one route with what they are to have.
struct Renaming {
  explicit Renaming(uint64 count) : rows(count), topic(count), order_key(count) {}
  RowColumns rows;
  Column topic, order_key;
};

void Apply(const ParkedOwner& owner, Renaming* renaming) {
  static Statement apply = {
      "UPDATE outbox_internal.parked p SET topic = k.topic, order_key = k.order_key FROM ROWS FROM (unnest($2),"
      " unnest($3), unnest($4), unnest($5), unnest($6)) k(created_at, id, replay, topic, order_key)"
      " WHERE p.route_id = $1 AND p.created_at = k.created_at AND p.id = k.id AND p.replay = k.replay"
      " AND p.own_topic IS NULL AND p.order_key IS NOT NULL",
      6,
      {INT8OID, TIMESTAMPTZARRAYOID, UUIDARRAYOID, INT8ARRAYOID, TEXTARRAYOID, INT8ARRAYOID},
      nullptr};
  Arguments arguments;
  arguments.Add(Int64GetDatum(owner.lane.route_id));
  renaming->rows.AddTo(&arguments);
  arguments.Add(renaming->topic.Array(TEXTOID));
  arguments.Add(renaming->order_key.Array(INT8OID));
  RunStatement(&apply, arguments.values);
}

}  // namespace

bool RenameParked(const ParkedOwner& owner, bool block, format::RecordFormat* format,
                  const std::vector<uint64_t>* only_if) {
  static Statement portion = {
      "SELECT p.created_at, p.id, p.replay, p.aggregate_type, p.event_type, p.aggregate_id, p.topic"
      " FROM outbox_internal.parked p WHERE p.route_id = $1 AND ROW(p.created_at, p.id, p.replay) > ROW($2, $3, $4)"
      " AND p.lane = $6 AND p.order_key IS NOT NULL AND p.own_topic IS NULL"
      " ORDER BY p.created_at, p.id, p.replay LIMIT $5",
      6,
      {INT8OID, TIMESTAMPTZOID, UUIDOID, INT8OID, INT8OID, INT4OID},
      nullptr};
  if ((only_if != nullptr && AreNamedSo(owner, block, *only_if, format)) || !IsTemplate(owner, format->spec())) {
    return false;
  }
  pg::LoadKeySecret();
  bool any = false;
  ForEachPortion(&portion, owner.lane.route_id, Int32GetDatum(owner.lane.lane), [&](uint64 rows) {
    Renaming renaming(rows);
    Event event;
    for (uint64 row = 0; row < rows; row++) {
      if (!IsNamedSo(row, 3, format, &event)) {
        const std::string_view topic = format->Topic(event);
        renaming.rows.Add(ReadKey(row));
        renaming.order_key.Add(
            Int64GetDatum(static_cast<int64>(OrderKey(topic, event.aggregate_type, event.aggregate_id))));
        renaming.topic.Add(ServerText(topic));
      }
    }
    if (renaming.rows.count() > 0) {
      Apply(owner, &renaming);
      any = true;
    }
    return true;
  });
  return any;
}

}  // namespace outbox::parked
