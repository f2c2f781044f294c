#include "log/progress/side_rows.h"

#include "base/status.h"
#include "log/progress/lane_tables.h"
#include "log/window/row.h"
#include "pg/clock.h"
#include "pg/encoding.h"
#include "pg/sql.h"

namespace outbox::log {

using namespace pg::sql;

namespace {

ErrorClass ClassOf(const char* name) {
  for (ErrorClass each : {ErrorClass::kMessage, ErrorClass::kSolo, ErrorClass::kTopic, ErrorClass::kDestination,
                          ErrorClass::kConfig, ErrorClass::kFatalClient}) {
    if (strcmp(name, ErrorClassName(each)) == 0) {
      return each;
    }
  }
  return ErrorClass::kTopic;
}

void ReadText(uint64 row, int column, std::string* text) {
  const char* value = ResultText(row, column);
  text->assign(value == nullptr ? std::string_view() : pg::Utf8(value));
}

}  // namespace

void ReadSides(const LaneId& lane, std::vector<relay::SideLane>* sides) {
  static Statement all = {
      "SELECT s.side, s.topic_template, t.topic, t.start_from, t.start_to, t.start_done_to, t.error_class,"
      " t.error_code, t.error_message, t.forked_at FROM outbox_internal.side_lane s JOIN outbox_internal.side_topic t"
      " ON t.route_id = s.route_id AND t.lane = s.lane"
      " AND t.side = s.side WHERE s.route_id = $1"
      " AND s.lane = $2 ORDER BY s.side, t.topic",
      2,
      {INT8OID, INT4OID},
      nullptr};
  Datum values[] = {Int64GetDatum(lane.route_id), Int32GetDatum(lane.lane)};
  RunStatement(&all, values);
  for (uint64 row = 0; row < SPI_processed; row++) {
    int32 number = ResultInt32(row, 0);
    if (sides->empty() || sides->back().side != number) {
      relay::SideLane& side = sides->emplace_back();
      side.side = number;
      ReadText(row, 1, &side.topic_template);
    }
    relay::SideTopic& topic = sides->back().topics.emplace_back();
    ReadText(row, 2, &topic.topic);
    ReadPosition(row, 3, &topic.start);
    topic.error.error_class = ClassOf(ResultText(row, 6));
    ReadText(row, 7, &topic.error.code);
    ReadText(row, 8, &topic.error.message);
    topic.since = ResultTime(row, 9) + kPgEpochMicros;
  }
}

namespace {

void AddLane(const LaneId& lane, Arguments* arguments) {
  arguments->Add(Int64GetDatum(lane.route_id));
  arguments->Add(Int32GetDatum(lane.lane));
}

void PutSideLane(const LaneId& lane, const relay::SideLane& side, const Position& position) {
  static Statement put = {
      "INSERT INTO outbox_internal.side_lane AS s (route_id, lane, side, topic_template, since, window_from, "
      "window_to, done_to)"
      " VALUES ($1, $2, $3, $4, $5, $6::pg_snapshot, $7::pg_snapshot, $8)"
      " ON CONFLICT (route_id, lane, side) DO UPDATE SET topic_template = excluded.topic_template,"
      " since = excluded.since, window_from = excluded.window_from, window_to = excluded.window_to,"
      " done_to = excluded.done_to",
      8,
      {INT8OID, INT4OID, INT4OID, TEXTOID, TIMESTAMPTZOID, TEXTOID, TEXTOID, TIMESTAMPTZOID},
      nullptr};
  Arguments arguments;
  AddLane(lane, &arguments);
  arguments.Add(Int32GetDatum(side.side));
  arguments.Add(ServerText(side.topic_template));
  arguments.AddTime(pg::TakeReadings(1));
  AddPosition(position, &arguments);
  RunStatement(&put, arguments.values, arguments.nulls);
}

// Makes these the side lane's topics: takes them from another side lane that had them, and removes the others that it
// had.
void PutTopics(const LaneId& lane, const relay::SideLane& side) {
  static Statement clear = {
      "DELETE FROM outbox_internal.side_topic t WHERE t.route_id = $1 AND t.lane = $2"
      " AND (t.side = $3 OR t.topic = ANY ($4))",
      4,
      {INT8OID, INT4OID, INT4OID, TEXTARRAYOID},
      nullptr};
  static Statement put = {
      "INSERT INTO outbox_internal.side_topic (route_id, lane, side, topic, start_from, start_to, start_done_to, "
      "error_class,"
      " error_code, error_message, forked_at)"
      " VALUES ($1, $2, $3, $4, $5::pg_snapshot, $6::pg_snapshot, $7, $8, $9, $10, $11)",
      11,
      {INT8OID, INT4OID, INT4OID, TEXTOID, TEXTOID, TEXTOID, TIMESTAMPTZOID, TEXTOID, TEXTOID, TEXTOID, TIMESTAMPTZOID},
      nullptr};
  static Statement sweep = {
      "DELETE FROM outbox_internal.side_lane s WHERE s.route_id = $1 AND s.lane = $2"
      " AND NOT EXISTS (SELECT FROM outbox_internal.side_topic t WHERE t.route_id = s.route_id"
      " AND t.lane = s.lane AND t.side = s.side)",
      2,
      {INT8OID, INT4OID},
      nullptr};
  Column names(side.topics.size());
  for (const relay::SideTopic& topic : side.topics) {
    names.Add(ServerText(topic.topic));
  }
  Arguments cleared;
  AddLane(lane, &cleared);
  cleared.Add(Int32GetDatum(side.side));
  cleared.Add(names.Array(TEXTOID));
  RunStatement(&clear, cleared.values);
  for (const relay::SideTopic& topic : side.topics) {
    Arguments arguments;
    AddLane(lane, &arguments);
    arguments.Add(Int32GetDatum(side.side));
    arguments.Add(ServerText(topic.topic));
    AddPosition(topic.start, &arguments);
    arguments.Add(CStringGetTextDatum(ErrorClassName(topic.error.error_class)));
    arguments.Add(ForeignText(topic.error.code));
    arguments.Add(ForeignText(topic.error.message));
    arguments.AddTime(topic.since);
    RunStatement(&put, arguments.values, arguments.nulls);
  }
  RunStatement(&sweep, cleared.values);
}

}  // namespace

void PutSide(const LaneId& lane, const relay::SideLane& side, const Position& position) {
  PutSideLane(lane, side, position);
  PutTopics(lane, side);
}

void DropSide(const LaneId& lane, int32 side) {
  static Statement drop = {
      "DELETE FROM outbox_internal.side_lane s WHERE s.route_id = $1 AND s.lane = $2"
      " AND s.side = $3",
      3,
      {INT8OID, INT4OID, INT4OID},
      nullptr};
  Datum values[] = {Int64GetDatum(lane.route_id), Int32GetDatum(lane.lane), Int32GetDatum(side)};
  RunStatement(&drop, values);
}

}  // namespace outbox::log
