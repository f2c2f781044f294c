// The log where not all of it can be read [P]: a damaged page, a file that is not there. PostgreSQL's error has a
// number of a file; people want to know the day.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "admin/common/query.h"
#include "base/status.h"

namespace outbox::admin {

struct UnreadableTable {
  std::string table;  // outbox_internal.log_20260131
  Error error;
};

// Runs `look`, which reads the log, in a part of its own. Returns why it could not, as part of a sentence; empty: it
// did. What else goes wrong is thrown.
std::string WhyUnread(const std::function<void()>& look);
// Calls `look` with each table of the log, each in a part of its own; returns those that it could not read. What else
// goes wrong is thrown.
std::vector<UnreadableTable> LookAtLogTables(const std::function<void(const std::string& table)>& look);
// Those that hold a page of events between these times (Unix microseconds) that cannot be read: reads all of them.
std::vector<UnreadableTable> FindUnreadable(Access access, int64 since, int64 until);

// For an error or a warning.
std::string NamesOf(const std::vector<UnreadableTable>& tables);
std::string DetailOf(const std::vector<UnreadableTable>& tables);

}  // namespace outbox::admin
