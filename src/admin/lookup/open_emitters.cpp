#include "admin/lookup/open_emitters.h"

#include "admin/common/query.h"
#include "base/count_text.h"

namespace outbox::admin {

// The keeper writes there as well, when it moves rows that have come past a guard: nothing is emitted by that.
int64 OpenEmitters() {
  const Row row =
      RunSql(Access::kWrite,
             "SELECT count(DISTINCT l.virtualtransaction) FROM pg_locks l JOIN pg_database d ON d.oid = "
             "l.database AND d.datname = current_database() WHERE l.locktype = 'relation' AND l.mode = "
             "'RowExclusiveLock' AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND l.relation IN "
             "(SELECT g.relation FROM outbox_internal.log_table g) AND NOT EXISTS (SELECT FROM pg_stat_activity a "
             "WHERE a.pid = l.pid AND a.backend_type LIKE 'outbox %')")[0];
  return Number(row[0]);
}

std::string TellOpenEmitters(int64 count) {
  return CountText(count, "open transaction has emitted", "open transactions have emitted");
}

}  // namespace outbox::admin
