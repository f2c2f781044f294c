#include "log/loss/met_cluster.h"

#include "pg/encoding.h"
#include "pg/sql.h"

namespace outbox::log {

using namespace pg::sql;

Status NoteCluster(uint32_t server, const std::string& cluster, std::string* former) {
  former->clear();
  return TryInTransaction([&] {
    // An update that changes nothing would lock the row, which is a write: each worker that starts comes here.
    static Statement known = {"SELECT FROM outbox_internal.met_cluster m WHERE m.server = $1 AND m.cluster = $2",
                              2,
                              {OIDOID, TEXTOID},
                              nullptr};
    static Statement sweep = {
        "DELETE FROM outbox_internal.met_cluster m WHERE NOT EXISTS"
        " (SELECT FROM pg_foreign_server s WHERE s.oid = m.server)",
        0,
        {},
        nullptr};
    static Statement note = {
        "INSERT INTO outbox_internal.met_cluster AS m (server, cluster) VALUES ($1, $2) ON CONFLICT (server) DO UPDATE"
        " SET former = m.cluster, cluster = excluded.cluster, met_at = excluded.met_at"
        " WHERE m.cluster <> excluded.cluster RETURNING m.former",
        2,
        {OIDOID, TEXTOID},
        nullptr};
    Datum values[] = {ObjectIdGetDatum(server), ForeignText(cluster)};
    RunStatement(&known, values);
    if (SPI_processed > 0) {
      return;
    }
    RunStatement(&sweep, nullptr);
    RunStatement(&note, values);
    if (const char* before = SPI_processed > 0 ? ResultText(0, 0) : nullptr; before != nullptr) {
      former->assign(pg::Utf8(before));
    }
  });
}

}  // namespace outbox::log
