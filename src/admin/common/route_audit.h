// What outbox.audit keeps of routes, and of the servers and user mappings that workers take over [P]. Never a secret:
// of a user mapping the names of its options only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "admin/common/json.h"

extern "C" {
#include "nodes/parsenodes.h"
}

namespace outbox::admin {

// All of a route that people can set, as a JSON object; "{}": there is no such route. Throws PgError.
std::string RouteFace(const std::string& name);
// Leave a row. What is the same in `from` and in `to` (faces) is left out; nothing changed: no row.
void AuditCreatedRoute(const std::string& name, const std::string& start);
// `unsent`: events that wait and are no longer wanted.
void AuditAlteredRoute(const std::string& name, const std::string& from, int64 unsent);
// `pending`: what it had not delivered, if that is known.
void AuditDroppedRoute(const std::string& name, const std::string& from, std::optional<int64> pending, int64 parked);

// `route`: a row of outbox.route as it is or was, in text form; `by`: the command that a user gave by hand.
void AuditRouteByHand(const std::string& from, const Cell& to, const char* by);
void AuditRenamedServer(const char* from, const char* to);

// Around a command that may change the server or a user mapping of a route. BeforeServerChange returns what of the
// server may be told, in the current memory context, or nullptr if it is no such command; AuditServerChange takes that
// after the command, and leaves a row. Both throw.
char* BeforeServerChange(Node* statement);
void AuditServerChange(Node* statement, const char* before);
// The same of all servers of routes, around REASSIGN OWNED and DROP OWNED; the second returns those that have another
// owner now.
char* BeforeOwnedChange();
std::vector<std::string> AuditOwnedChange(Node* statement, const char* before);

}  // namespace outbox::admin
