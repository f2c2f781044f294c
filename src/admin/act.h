// What every function that acts has in common [P]: may it write, who calls and why, and the row that it leaves in
// outbox.audit.
#pragma once

#include "admin/json.h"
#include "admin/query.h"

namespace outbox::admin {

// Raises on a standby and in a read-only transaction (25006). `function`: with its brackets, "outbox.skip()".
void RequireWritable(const char* function);

// The reason as given, NULL where it is blank; where one is `required`, nothing and blanks are errors.
Cell CheckReason(const Cell& reason, bool required);

// "who" is the session's role, which SET ROLE does not change; the current role is added where it is another one.
void WriteAudit(const char* action, const Cell& route, const Cell& event_id, JsonObject detail, const Cell& reason);

pg::UserError NoSuchRoute(const std::string& name);
// Its id. Throws NoSuchRoute.
std::string RouteId(const std::string& name);

// A pattern with * for any run of characters, as LIKE wants it.
Cell LikePattern(const Cell& pattern);

// Incarnations of the workers that run, as a literal of bigint[]: whose name stands in a column `sender` or `owner`
// counts only if it is one of them.
std::string LiveIncarnations();

void Notice(const std::string& message, const std::string& detail = "", const std::string& hint = "");

}  // namespace outbox::admin
