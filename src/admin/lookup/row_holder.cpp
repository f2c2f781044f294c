#include "admin/lookup/row_holder.h"

#include <algorithm>

#include "admin/lookup/shared_views.h"

namespace outbox::admin {

Cell HolderOfRow(const Cell& xmax) {
  if (!xmax || *xmax == "0") {
    return Cell();
  }
  static PlannedQuery query = {
      "SELECT coalesce(l.pid::text, '') FROM pg_locks l WHERE l.locktype = 'transactionid' AND l.granted "
      "AND l.mode = 'ExclusiveLock' AND l.transactionid = $1::xid AND l.pid IS DISTINCT FROM pg_backend_pid()",
      Plan::kUsual};
  const std::vector<Row> rows = RunPlanned(&query, {xmax});
  if (rows.empty()) {
    return Cell();
  }
  const std::string& pid = rows[0][0].value();
  const std::vector<WorkerView> workers = ReadWorkerViews();
  if (std::any_of(workers.begin(), workers.end(),
                  [&pid](const WorkerView& worker) { return std::to_string(worker.pid) == pid; })) {
    return Cell();
  }
  return pid.empty() ? "a prepared transaction has it locked" : "session " + pid + " has it locked";
}

}  // namespace outbox::admin
