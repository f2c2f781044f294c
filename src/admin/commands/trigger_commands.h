// Triggers on the tables of outbox [P]: who may make one, and what becomes of those that guard.
//
// CREATE TRIGGER on a table of outbox is its owner's, whatever was granted; one that would change or drop rows
// before they are written is nobody's, nor is one on the log, which would never be fired. Taking away a trigger of
// outbox, or switching it off, is asked about (loss.h).
#pragma once

#include <string>

#include "admin/commands/access_hook.h"

namespace outbox::admin {

// One that is made, and not before the command: the name in it may then mean another table than once the command has
// its lock. The first is plain, and false of triggers of foreign keys, which call nothing of the user's; the other one
// throws.
bool CallsForUser(const ObjectAccess& access);
void CheckMadeTrigger(const ObjectAccess& access);

// Before the statement; they throw.
void CheckDropTrigger(Node* statement);
// Before it goes with another extension.
void CheckTakenTrigger(Oid trigger);
// "WORDS TABLE": of this trigger; of all, where it is nullptr.
void CheckGuard(Oid table, const char* trigger, const std::string& words);

// Plain.
bool DropsTrigger(Node* statement);
// One of outbox that somebody has made depend on an extension, which takes it along.
bool GoesWithExtension(Oid trigger);
// Made by the extension: its function is there.
bool IsOwnTrigger(Oid table, const char* name);
// One of those, on a table or view of outbox; by hand, and by a role that the command would let.
bool AltersOwnTrigger(Oid relation, const char* name);

}  // namespace outbox::admin
