// What other hands do to the functions, views, types and wrappers of outbox [P].
//
// Triggers, views, workers and casts find them by name, and count on what they do: one that is renamed, moved, altered
// or replaced by its owner stops emitters or workers, or lets events go without a word. So that is refused, as it is of
// tables (table_commands.h); `SET outbox.allow_loss = on` lets it through, and audits it. Owners may change: what of
// the extension has another owner than its tables is shown by outbox.doctor(). An extension script may do everything,
// and so may pg_upgrade.
#pragma once

#include "pg/prelude.h"

namespace outbox::admin {

// Before the statement; they throw.
void CheckRenameObject(Node* statement);
void CheckMoveObject(Node* statement);  // SET SCHEMA
void CheckAlterFunction(Node* statement);
void CheckFunctionDependency(Node* statement);  // DEPENDS ON EXTENSION
void CheckReplaceFunction(Node* statement);
void CheckReplaceView(Node* statement);
void CheckAlterView(Node* statement);  // ALTER TABLE, too
void CheckAlterDomain(Node* statement);
void CheckCreateRule(Node* statement);
void CheckAlterWrapper(Node* statement);
// Makes a partition, or a child: CREATE TABLE ... PARTITION OF, INHERITS; foreign ones, too.
void CheckCreateTable(Node* statement);

// Plain.
bool ReplacesFunction(Node* statement);
bool ReplacesView(Node* statement);
bool HasParent(Node* statement);

}  // namespace outbox::admin
