// What other hands do to the tables of outbox [P].
//
// ALTER TABLE, RENAME, SET SCHEMA and DROP of what emit(), workers and dumps count on (columns, constraints, names,
// indexes, days of positions) are refused: emit() writes rows by itself, without looking at what a user has added, and
// a dump with a column of its own could not be restored into a fresh extension. So is CREATE OR REPLACE of a function
// of outbox, which triggers and workers call, and what lets go of undelivered events or of their guards (loss.h). `SET
// outbox.allow_loss = on` lets all through. An extension script may do everything.
//
// CREATE TRIGGER on a table of outbox is its owner's, whatever was granted. COPY into outbox.event is refused where it
// would lose the events (emit/replica_role.h), and so is a COPY that would mix a dump's positions with those in use.
#pragma once

#include "admin/guard/utility_hook.h"

namespace outbox::admin {

// Once per backend, from _PG_init: triggers that are made.
void InstallTriggerHook();

// Before the statement; they throw.
void CheckAlterTable(Node* statement);
void CheckRename(Node* statement);
void CheckSetSchema(Node* statement);
// What is done to a table of outbox: a partition that is added by hand; a rule, which would take what is written.
void CheckAttach(const RangeVar* parent, const char* words);
void CheckRuleOnTable(const RangeVar* relation);
void CheckCreatePolicy(Node* statement);
void CheckDropTrigger(Node* statement);
void CheckDropPart(Node* statement);  // an index, a day of positions
void CheckCopy(Node* statement);
void CheckLock(Node* statement);  // a view of outbox, by somebody who may emit
void CheckReplaceFunction(Node* statement);

// Plain.
bool DropsTrigger(Node* statement);
bool DropsPart(Node* statement);
bool LocksView(Node* statement);
bool ReplacesFunction(Node* statement);
// COPY into a table of outbox.
bool IsRestored(Node* statement);

// pg_restore -j copies the tables of an extension in any order, the largest first, whatever foreign keys say: a dump
// holds every row that they ask for, but parked events came before their routes. So a COPY into tables of outbox asks
// no foreign key; log_guard fires all the same.
extern const UtilityScope kWithoutForeignKeys;

}  // namespace outbox::admin
