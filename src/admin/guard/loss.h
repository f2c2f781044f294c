// Undelivered events are not lost without a word [P].
//
// Whatever would lose them is refused with numbers, in any way: UPDATE and DELETE on the log and its day tables
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
// What counts is found by `undelivered`; `loss` refuses it, or lets it through and tells; `loss_of_rows` asks when
// rows go, `../commands/loss_of_objects` when something is dropped.
//
// Where the extension is of another version than the library (between the new files and ALTER EXTENSION UPDATE) its
// positions cannot be read: what the log still has counts as undelivered, and commands are asked in place of triggers
// (`../commands/rows_of_another_version`).
//
// The triggers work everywhere. DROP, DETACH and ALTER are seen where the library is loaded: in every session where it
// is preloaded. The keeper's own drops have looked for themselves. DROP DATABASE is not looked at: the question cannot
// be asked from another database.
#pragma once

#include <string>

#include "admin/guard/undelivered.h"
#include "pg/prelude.h"

namespace outbox::admin {

// --- refused, or let through and told. All throw. ---

constexpr const char* kHolds = "it holds undelivered events";
constexpr const char* kThereAre = "there are undelivered events";

// `command`: "drop extension outbox".
// `keeps_audit`: outbox.audit does not go with it.
void JudgeLoss(const Loss& loss, const std::string& command, bool keeps_audit = true, const char* because = kHolds,
               const char* warning = "undelivered events are lost");

// Before a partition of the log is detached; before a trigger or another guard is taken away: "cannot COMMAND because
// ...".
void JudgeDetach(Oid table);
void JudgeGuards(const std::string& command);
// Before ALTER EXTENSION ... ADD or DROP of a member.
void CheckExtensionContents(Node* statement);
// COMMAND: "drop table".
void JudgeDayTable(Oid relation, const char* command);

// Leaves a row in outbox.audit: what outbox.allow_loss let through; how many rows it concerned, if that is known.
void NoteLoss(const std::string& command, const std::string& what, int64 rows = 0);
void Warn(const std::string& message, const std::string& detail);
// "cannot COMMAND", with `why` and another way; unless outbox.allow_loss lets it through, which is noted. Throws.
void RefuseByHand(const std::string& command, const std::string& why, const std::string& way);

// --- what it is about ---

// Whether the extension is there with all objects that the check needs, in its version.
bool StateTablesExist();
// A table without which events are lost, or an answer cannot be made, beside the log's day tables.
bool IsStateTable(const char* name);
// Whether the relation is a part of the log: a day table, or the spare one.
bool IsDayTable(Oid relation);
// The table, or what it is a partition of. Plain.
Oid WholeOf(Oid table);
// With its schema, unquoted whatever the session quotes: for messages and comparisons, not for SQL.
std::string NameOf(Oid relation);

}  // namespace outbox::admin
