// Undelivered events are not lost without a word [P].
//
// Whatever would lose them is refused with numbers, by whichever way: UPDATE and DELETE on the log and its day tables
// (always); TRUNCATE, DROP and DETACH of what holds undelivered events; DELETE, TRUNCATE and DROP of the rows and
// tables that say what is undelivered (routes, lanes, parked events); DROP of the extension, of its schema and of a
// destination, also as part of another command (DROP OWNED BY, CASCADE); and taking away what guards all that: a
// trigger, or a member of the extension. `SET outbox.allow_loss = on` lets all through, and then a WARNING and the
// audit say what was lost: of UPDATE and DELETE exactly what went. Undelivered: pending, or parked and not dead, on
// some route, events of this transaction included; and where routes or lanes go, whatever open transactions have
// emitted. Dead letters are told of.
//
// What outbox does itself (drop_route(), skip(), workers, upkeep) is not asked: pg::InOwnStatement().
//
// The triggers work everywhere. DROP, DETACH and ALTER are seen where the library is loaded: in every session where it
// is preloaded. The keeper's own drops have looked for themselves. DROP DATABASE is not looked at: the question cannot
// be asked from another database.
#pragma once

#include <string>

#include "pg/prelude.h"

namespace outbox::admin {

// Once per backend, from _PG_init.
void InstallDropHook();

// Before every utility statement: what is dropped from here on is dropped by it. Plain.
void NoteCommand(Node* statement);
// Before ALTER EXTENSION ... ADD or DROP of a member. Throws.
void CheckExtensionContents(Node* statement);

// Before a partition of the log is detached; before a trigger or another guard is taken away: "cannot COMMAND because
// ...". Throw.
void JudgeDetach(Oid table);
void JudgeGuards(const std::string& command);

// With its schema, quoted where needed. Throws.
std::string NameOf(Oid relation);
// Leaves a row in outbox.audit: what outbox.allow_loss let through; how many rows it concerned, if that is known.
// Throws.
void NoteLoss(const std::string& command, const std::string& what, int64 rows = 0);
void Warn(const std::string& message, const std::string& detail);

// What the routes to that server have not delivered, as text for messages; empty: nothing. Throws.
std::string UndeliveredTo(const char* server);

}  // namespace outbox::admin
