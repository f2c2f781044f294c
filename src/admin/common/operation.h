// What all functions that change something have in common [P]: the check that writing is allowed, the reason, and the
// row in outbox.audit.
#pragma once

#include "admin/common/json.h"
#include "admin/common/query.h"

namespace outbox::admin {

// As pg/writable.h.
void RequireWritable(const char* function);

// The reason as given, NULL if it is blank. If one is `required`, a missing or blank reason is an error.
Cell CheckReason(const Cell& reason, bool required);

// The column "who" is the session's role, which SET ROLE does not change; the current role is added if it differs.
void WriteAudit(const char* action, const Cell& route, const Cell& event_id, JsonObject detail, const Cell& reason);

pg::UserError NoSuchRoute(const std::string& name);
// The id of a route. Throws NoSuchRoute.
std::string RouteId(const std::string& name);
// The same, and the route is there until the transaction ends. Waits for whoever is dropping it.
std::string KeepRoute(const std::string& name);

// A pattern with * for any run of characters, as LIKE wants it.
Cell LikePattern(const Cell& pattern);

// For whoever has filtered by a key and found nothing: keys may hold a *, so it stands for nothing else there; empty:
// it has none.
std::string StarInKeyHint(const Cell& aggregate_id);

// Incarnations of the running workers, as a literal of bigint[]: an entry in a column `sender` or `owner` counts only
// if it is one of them.
std::string LiveIncarnations();

void Notice(const std::string& message, const std::string& detail = "", const std::string& hint = "");

}  // namespace outbox::admin
