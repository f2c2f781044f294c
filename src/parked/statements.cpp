#include "parked/statements.h"

#include "pg/sql.h"
#include "pg/wall.h"

namespace outbox::parked {

using namespace pg::sql;

namespace {

void AddOwner(const ParkedOwner& owner, Arguments* arguments) {
  arguments->Add(Int64GetDatum(owner.lane.route_id));
  arguments->Add(Int32GetDatum(owner.lane.lane));
  arguments->Add(Int64GetDatum(static_cast<int64>(owner.incarnation)));
}

}  // namespace

bool OwnsLane(const ParkedOwner& owner, bool* block) {
  static Statement query = {
      "SELECT r.on_failure = 'block' FROM outbox_internal.lane l"
      " JOIN outbox.route r ON r.id = l.route_id WHERE l.route_id = $1"
      " AND l.lane = $2 AND l.owner = $3",
      3,
      {INT8OID, INT4OID, INT8OID},
      nullptr};
  Arguments arguments;
  AddOwner(owner, &arguments);
  RunStatement(&query, arguments.values);
  if (SPI_processed == 0) {
    return false;
  }
  *block = ResultBool(0, 0);
  return true;
}

bool LockLane(const ParkedOwner& owner, int64_t since) {
  static Statement lock = {
      "SELECT FROM outbox_internal.lane l WHERE l.route_id = $1 AND l.lane = $2"
      " AND l.owner = $3 AND l.since = $4 FOR SHARE",
      4,
      {INT8OID, INT4OID, INT8OID, TIMESTAMPTZOID},
      nullptr};
  Arguments arguments;
  AddOwner(owner, &arguments);
  arguments.Add(TimestampTzGetDatum(since));
  RunStatement(&lock, arguments.values);
  return SPI_processed == 1;
}

void ForgetSenders(const ParkedOwner& owner) {
  static Statement forget = {
      "UPDATE outbox_internal.parked SET sender = NULL WHERE ctid = ANY ("
      "ARRAY(SELECT p.ctid FROM outbox_internal.parked p WHERE p.route_id = $1 AND p.lane = $2 AND p.due_at IS NOT NULL"
      " AND p.order_key IS NOT NULL AND p.sender IS NOT NULL FOR UPDATE SKIP LOCKED) ||"
      " ARRAY(SELECT p.ctid FROM outbox_internal.parked p WHERE p.route_id = $1 AND p.lane = $2 AND p.due_at IS NOT "
      "NULL"
      " AND p.order_key IS NULL AND p.sender IS NOT NULL FOR UPDATE SKIP LOCKED))",
      2,
      {INT8OID, INT4OID},
      nullptr};
  Datum values[] = {Int64GetDatum(owner.lane.route_id), Int32GetDatum(owner.lane.lane)};
  RunStatement(&forget, values);
}

void BringForward(const ParkedOwner& owner, int64_t now) {
  // Spelled out, for what is locked: outbox_internal.due_keyed, and outbox_internal.due_shared. IS TRUE keeps the
  // planner off the index of states.
  static Statement bring = {
      "UPDATE outbox_internal.parked SET due_at = $3 WHERE ctid = ANY ("
      "ARRAY(SELECT p.ctid FROM outbox_internal.parked p WHERE p.route_id = $1 AND p.lane = $2"
      " AND p.order_key IS NOT NULL AND p.due_at > $4 + (SELECT r.backoff_cap FROM outbox.route r WHERE r.id = $1)"
      " AND p.due_at < 'infinity' AND (p.state = 'retrying') IS TRUE FOR UPDATE SKIP LOCKED) ||"
      " ARRAY(SELECT p.ctid FROM outbox_internal.parked p WHERE p.route_id = $1"
      " AND p.order_key IS NULL AND p.due_at > $4 + (SELECT r.backoff_cap FROM outbox.route r WHERE r.id = $1)"
      " AND p.due_at < 'infinity' AND (p.state = 'retrying') IS TRUE FOR UPDATE SKIP LOCKED))",
      4,
      {INT8OID, INT4OID, TIMESTAMPTZOID, TIMESTAMPTZOID},
      nullptr};
  Arguments arguments;
  arguments.Add(Int64GetDatum(owner.lane.route_id));
  arguments.Add(Int32GetDatum(owner.lane.lane));
  arguments.AddTime(now);
  arguments.AddTime(now + pg::kSmallStepMicros);
  RunStatement(&bring, arguments.values);
}

}  // namespace outbox::parked
