// What other hands do to the tables of outbox [P].
//
// ALTER TABLE, RENAME, SET SCHEMA and DROP of what emit(), workers and dumps count on (columns, constraints, names,
// indexes, days of positions) are refused: emit() writes rows by itself, without looking at what a user has added, and
// a dump with a column of its own could not be restored into a fresh extension. So is what lets go of undelivered
// events (loss.h). `SET outbox.allow_loss = on` lets all through. An extension script may do everything.
#pragma once

#include "pg/prelude.h"

namespace outbox::admin {

// Before the statement; they throw.
void CheckAlterTable(Node* statement);
void CheckRename(Node* statement);
void CheckSetSchema(Node* statement);
// What is done to a table of outbox: a partition that is added by hand; a child; an index that may refuse rows; a rule,
// which would take what is written.
void CheckAttach(const RangeVar* parent, const char* words);
void CheckInherited(const RangeVar* parent);
void CheckCreateIndex(Node* statement);
void CheckRuleOnTable(const RangeVar* relation);
void CheckCreatePolicy(Node* statement);
void CheckDependency(Node* statement);  // ALTER TRIGGER, ALTER INDEX ... DEPENDS ON EXTENSION
void CheckDropPart(Node* statement);    // an index, a day of positions
void CheckAlterSequence(Node* statement);

// After ALTER TABLE ... ENABLE TRIGGER, as a restore ends with: guards of outbox fire always, and not as others do.
void KeepGuardsFiring(Node* statement);

bool DropsPart(Node* statement);           // plain
bool SwitchesTriggersOn(Node* statement);  // plain

}  // namespace outbox::admin
