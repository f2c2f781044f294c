#include "admin/lookup/unreadable_log.h"

#include "pg/subtransaction.h"

namespace outbox::admin {

std::string WhyUnread(const std::function<void()>& look) {
  const Status status = pg::TryPart(pg::IsUnreadable, look);
  return status.ok() ? "" : "the log cannot be read: " + status.error().message + " (" + status.error().code + ")";
}

std::vector<UnreadableTable> LookAtLogTables(const std::function<void(const std::string& table)>& look) {
  std::vector<UnreadableTable> unreadable;
  for (const Row& row :
       RunSql(Access::kRead, "SELECT relation::regclass::text FROM outbox_internal.log_table ORDER BY name")) {
    Status status = pg::TryPart(pg::IsUnreadable, [&] { look(row[0].value()); });
    if (!status.ok()) {
      unreadable.push_back({row[0].value(), status.error()});
    }
  }
  return unreadable;
}

std::vector<UnreadableTable> FindUnreadable(Access access, int64 since, int64 until) {
  return LookAtLogTables([&](const std::string& table) {
    const std::string sql =
        "SELECT sum(octet_length(payload)), "
        "count(outbox_internal.forgotten(payload, headers, content_type)) FROM " +
        table +
        " WHERE created_at >= timestamptz 'epoch' + $1::bigint * interval '1 microsecond' "
        "AND created_at < timestamptz 'epoch' + $2::bigint * interval '1 microsecond'";
    RunSql(access, sql.c_str(), {Cell(std::to_string(since)), Cell(std::to_string(until))});
  });
}

std::string NamesOf(const std::vector<UnreadableTable>& tables) {
  std::string names;
  for (const UnreadableTable& one : tables) {
    names += (names.empty() ? "" : ", ") + one.table;
  }
  return names;
}

std::string DetailOf(const std::vector<UnreadableTable>& tables) {
  std::string detail;
  for (const UnreadableTable& one : tables) {
    detail += (detail.empty() ? "" : " ") + one.table + ": " + one.error.message + " (" + one.error.code + ").";
  }
  return detail;
}

}  // namespace outbox::admin
