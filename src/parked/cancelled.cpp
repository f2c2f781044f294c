// What cancel_replay() has left: copies that a worker had in hand, and has given back, or was refused [P].
#include "parked/rows.h"
#include "parked/statements.h"
#include "pg/schemas.h"
#include "pg/sql.h"
#include "pg/worker_slot.h"

extern "C" {
#include "storage/lmgr.h"
}

namespace outbox::parked {

using namespace pg::sql;

bool DropCancelled(const ParkedOwner& owner, const DueWork& work, std::vector<uint64_t>* keys) {
  // All of them that this worker may send, not only those of the claim: while a destination is in trouble a claim is of
  // one event.
  static Statement drop = {
      "WITH locked AS MATERIALIZED (SELECT p.created_at, p.id, p.replay FROM outbox.replay r"
      " JOIN outbox_internal.parked p ON p.replay = r.number AND p.replay <> 0"
      " WHERE r.number = ANY ($3) AND r.state = 'cancelled' AND p.route_id = $1 AND p.state <> 'dead'"
      " AND CASE WHEN p.order_key IS NULL THEN p.sender IS NULL OR p.sender <> ALL ($4) ELSE p.lane = $2 END"
      " FOR UPDATE OF p SKIP LOCKED),"
      " gone AS (DELETE FROM outbox_internal.parked p USING locked k WHERE p.route_id = $1"
      " AND p.created_at = k.created_at AND p.id = k.id AND p.replay = k.replay RETURNING p.order_key, p.state)"
      " SELECT DISTINCT CASE WHEN state <> 'scheduled' THEN order_key END FROM gone",
      4,
      {INT8OID, INT4OID, INT8ARRAYOID, INT8ARRAYOID},
      nullptr};
  int64_t last = 0;
  Column numbers(work.rows.size());
  for (const DueRow& row : work.rows) {
    if (row.point.replay != 0 && row.point.replay != last) {
      last = row.point.replay;
      numbers.Add(Int64GetDatum(last));
    }
  }
  // Nobody who has the table of replays locked holds up what is parked.
  if (numbers.count == 0 || !ConditionalLockRelationOid(pg::FindOurRelation("replay"), AccessShareLock)) {
    return false;
  }
  Datum values[] = {Int64GetDatum(owner.lane.route_id), Int32GetDatum(owner.lane.lane), numbers.Array(INT8OID),
                    pg::LiveIncarnations()};
  RunStatement(&drop, values);
  for (uint64 row = 0; row < SPI_processed; row++) {
    bool isnull = false;
    const Datum key = ResultDatum(row, 0, &isnull);
    if (!isnull) {
      keys->push_back(static_cast<uint64_t>(DatumGetInt64(key)));
    }
  }
  return SPI_processed > 0;
}

}  // namespace outbox::parked
