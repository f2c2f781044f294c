// Recording what became of the events that a worker had claimed [P].
#include "parked/rows.h"
#include "parked/statements.h"
#include "pg/sql.h"

namespace outbox::parked {

using namespace pg::sql;

namespace {

using relay::ParkedOutcome;
using relay::Settlement;

#define OUTBOX_SAME_PLACE                            \
  " p.route_id = $1 AND p.created_at = k.created_at" \
  " AND p.id = k.id AND p.replay = k.replay"         \
  " AND p.sender = $2"

// Adds route, sender, and the rows of the outcomes for which `mine` is true; returns how many.
template <typename Mine>
int AddOutcomes(const ParkedOwner& owner, std::span<const Settlement> outcomes, Mine mine, Arguments* arguments) {
  RowColumns rows(outcomes.size());
  for (const Settlement& outcome : outcomes) {
    if (mine(outcome)) {
      rows.Add(PointOf(outcome));
    }
  }
  arguments->Add(Int64GetDatum(owner.lane.route_id));
  arguments->Add(Int64GetDatum(static_cast<int64>(owner.incarnation)));
  rows.AddTo(arguments);
  return rows.count();
}

// What the server's later runs are known to have lost, though it is only noted now, is not delivered: it is due again.
// So is what they were not asked about. Only what was sent before such a run was met: a connection that has survived a
// change of the run writes to the new one.
void UndoLost(const ParkedOwner& owner, std::span<const Settlement> outcomes) {
  static Statement undo = {
      "UPDATE outbox_internal.parked p SET sender = NULL FROM ROWS FROM (unnest($3), unnest($4), unnest($5), "
      "unnest($6),"
      " unnest($7), unnest($8)) k(created_at, id, replay, run, acknowledged, sent_at)"
      " CROSS JOIN LATERAL outbox_internal.survived(k.run, 0, 9223372036854775807, k.sent_at) s"
      " WHERE" OUTBOX_SAME_PLACE " AND string_to_array(k.acknowledged, '-')::int8[] > s.bound",
      8,
      {INT8OID, INT8OID, TIMESTAMPTZARRAYOID, UUIDARRAYOID, INT8ARRAYOID, TEXTARRAYOID, TEXTARRAYOID,
       TIMESTAMPTZARRAYOID},
      nullptr};
  auto mine = [](const Settlement& outcome) {
    return outcome.outcome == ParkedOutcome::kDelivered && !outcome.server_run.empty();
  };
  Arguments arguments;
  if (AddOutcomes(owner, outcomes, mine, &arguments) == 0) {
    return;
  }
  Column run(outcomes.size()), acknowledged(outcomes.size()), sent_at(outcomes.size());
  for (const Settlement& outcome : outcomes) {
    if (mine(outcome)) {
      run.Add(ForeignText(outcome.server_run));
      acknowledged.Add(ForeignText(outcome.acknowledged));
      sent_at.Add(TimeDatum(outcome.sent_at));
    }
  }
  arguments.Add(run.Array(TEXTOID));
  arguments.Add(acknowledged.Array(TEXTOID));
  arguments.Add(sent_at.Array(TIMESTAMPTZOID));
  RunStatement(&undo, arguments.values);
}

void ApplyDelivered(const ParkedOwner& owner, std::span<const Settlement> outcomes, int64_t at) {
  static Statement deliver = {
      "WITH gone AS (DELETE FROM outbox_internal.parked p USING ROWS FROM (unnest($3), unnest($4),"
      " unnest($5), unnest($6), unnest($7), unnest($9), unnest($10))"
      " k(created_at, id, replay, topic, place, run, acknowledged)"
      " WHERE" OUTBOX_SAME_PLACE
      " RETURNING p.created_at, p.id, p.replay, p.attempts, k.topic, k.place, p.error_class, p.error_code,"
      " p.error_message, p.lane, p.order_key, p.xid, k.run, string_to_array(k.acknowledged, '-')::int8[] AS "
      "acknowledged)"
      " INSERT INTO outbox_internal.outcome (at, route_id, created_at, id, replay, outcome, attempts, topic, place, "
      "error_class,"
      " error_code, error_message, lane, order_key, xid, run, acknowledged)"
      " SELECT $8, $1, g.created_at, g.id, g.replay, 'delivered', g.attempts, g.topic, g.place, g.error_class,"
      " g.error_code, g.error_message, g.lane, g.order_key, g.xid, g.run, g.acknowledged FROM gone g",
      10,
      {INT8OID, INT8OID, TIMESTAMPTZARRAYOID, UUIDARRAYOID, INT8ARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TIMESTAMPTZOID,
       TEXTARRAYOID, TEXTARRAYOID},
      nullptr};
  auto mine = [](const Settlement& outcome) { return outcome.outcome == ParkedOutcome::kDelivered; };
  Arguments arguments;
  if (AddOutcomes(owner, outcomes, mine, &arguments) == 0) {
    return;
  }
  const size_t rows = outcomes.size();
  Column topic(rows), place(rows), run(rows), acknowledged(rows);
  auto add = [](const std::string& text, Column* column) {
    text.empty() ? column->AddNull() : column->Add(ForeignText(text));
  };
  for (const Settlement& outcome : outcomes) {
    if (mine(outcome)) {
      topic.Add(ServerText(outcome.topic));
      add(outcome.place, &place);
      add(outcome.server_run, &run);
      add(outcome.acknowledged, &acknowledged);
    }
  }
  arguments.Add(topic.Array(TEXTOID));
  arguments.Add(place.Array(TEXTOID));
  arguments.AddTime(at);
  arguments.Add(run.Array(TEXTOID));
  arguments.Add(acknowledged.Array(TEXTOID));
  RunStatement(&deliver, arguments.values);
}

// Charged or given back: the row stays. A refused copy of a replay has no key from then on: else live events would wait
// until it is delivered or given up, and under 'block' for ever.
void ApplyKept(const ParkedOwner& owner, std::span<const Settlement> outcomes) {
  static Statement keep = {
      "UPDATE outbox_internal.parked p SET sender = NULL, state = coalesce(k.state, p.state),"
      " due_at = CASE WHEN k.state = 'dead' THEN NULL ELSE coalesce(k.due_at, p.due_at) END,"
      " order_key = CASE WHEN k.state IS NULL OR p.replay = 0 THEN p.order_key END,"
      " attempts = coalesce(k.attempts, p.attempts), topic = coalesce(nullif(k.topic, ''), p.topic),"
      " error_class = coalesce(k.error_class, p.error_class),"
      " error_code = CASE WHEN k.error_class IS NULL THEN p.error_code ELSE k.error_code END,"
      " error_message = CASE WHEN k.error_class IS NULL THEN p.error_message ELSE k.error_message END,"
      " failed_at = CASE WHEN k.error_class IS NULL THEN p.failed_at ELSE clock_timestamp() END"
      " FROM ROWS FROM (unnest($3), unnest($4), unnest($5), unnest($6),"
      " unnest($7), unnest($8), unnest($9), unnest($10),"
      " unnest($11), unnest($12))"
      " k(created_at, id, replay, state, due_at, attempts, topic, error_class, error_code, error_message)"
      " WHERE" OUTBOX_SAME_PLACE,
      12,
      {INT8OID, INT8OID, TIMESTAMPTZARRAYOID, UUIDARRAYOID, INT8ARRAYOID, TEXTARRAYOID, TIMESTAMPTZARRAYOID,
       INT4ARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID},
      nullptr};
  auto mine = [](const Settlement& outcome) { return outcome.outcome != ParkedOutcome::kDelivered; };
  Arguments arguments;
  if (AddOutcomes(owner, outcomes, mine, &arguments) == 0) {
    return;
  }
  size_t rows = outcomes.size();
  Column state(rows), due(rows), attempts(rows), topic(rows);
  ErrorColumns error(rows);
  for (const Settlement& outcome : outcomes) {
    if (!mine(outcome)) {
      continue;
    }
    bool charged = outcome.outcome != ParkedOutcome::kGiveBack;
    if (charged) {
      state.Add(CStringGetTextDatum(outcome.outcome == ParkedOutcome::kDead ? "dead" : "retrying"));
      attempts.Add(Int32GetDatum(outcome.attempts));
    } else {
      state.AddNull();
      attempts.AddNull();
    }
    outcome.due == 0 ? due.AddNull() : due.Add(TimeDatum(outcome.due));
    outcome.topic.empty() ? topic.AddNull() : topic.Add(ServerText(outcome.topic));
    error.Add(outcome.error);
  }
  arguments.Add(state.Array(TEXTOID));
  arguments.Add(due.Array(TIMESTAMPTZOID));
  arguments.Add(attempts.Array(INT4OID));
  arguments.Add(topic.Array(TEXTOID));
  error.AddTo(&arguments);
  RunStatement(&keep, arguments.values);
}

// Rows of a run behind one that has to be tried again wait for it once more. (A row that is missed here, because it is
// locked, is found when it is claimed.)
void BlockFollowers(const ParkedOwner& owner, std::span<const Settlement> outcomes) {
  static Statement follow = {
      // spells out what waits, like PromoteHeads
      "UPDATE outbox_internal.parked t SET state = 'blocked', due_at = NULL FROM"
      " ROWS FROM (unnest($2), unnest($3), unnest($4)) k(key, created_at, id) CROSS JOIN LATERAL"
      " (SELECT p.created_at, p.id, p.replay, p.state, p.sender FROM outbox_internal.parked p WHERE p.route_id = $1"
      " AND p.order_key = k.key AND p.state IN ('retrying', 'blocked')"
      " AND ROW(p.created_at, p.replay, p.id) > ROW(k.created_at, 0::int8, k.id)"
      " ORDER BY p.created_at, p.replay, p.id LIMIT $5 FOR UPDATE SKIP LOCKED) r"
      " WHERE r.state = 'retrying' AND r.sender IS NULL AND t.route_id = $1 AND t.created_at = r.created_at"
      " AND t.id = r.id AND t.replay = r.replay",
      5,
      {INT8OID, INT8ARRAYOID, TIMESTAMPTZARRAYOID, UUIDARRAYOID, INT8OID},
      nullptr};
  Column key(outcomes.size());
  Column created_at(outcomes.size());
  Column id(outcomes.size());
  for (const Settlement& outcome : outcomes) {
    if (outcome.outcome == ParkedOutcome::kRetry && outcome.claimed->order_key != 0 && outcome.claimed->replay == 0) {
      key.Add(Int64GetDatum(static_cast<int64>(outcome.claimed->order_key)));
      created_at.Add(TimeDatum(outcome.claimed->event.created_at));
      id.Add(UuidDatum(outcome.claimed->event.id));
    }
  }
  if (key.count == 0) {
    return;
  }
  Datum values[] = {Int64GetDatum(owner.lane.route_id), key.Array(INT8OID), created_at.Array(TIMESTAMPTZOID),
                    id.Array(UUIDOID), Int64GetDatum(kWaitingRead)};
  RunStatement(&follow, values);
}

}  // namespace

void ApplyOutcomes(const ParkedOwner& owner, std::span<const Settlement> outcomes, int64_t at) {
  UndoLost(owner, outcomes);
  ApplyDelivered(owner, outcomes, at);
  ApplyKept(owner, outcomes);
  BlockFollowers(owner, outcomes);
}

}  // namespace outbox::parked
