// Undelivered events, marks of consumers, and what is dropped [P]: the extension, its schema, a destination, a day
// table, a table that says what is undelivered; by any command (DROP OWNED BY, CASCADE). See loss.h and forgetting.h.
#pragma once

#include "admin/commands/access_hook.h"

namespace outbox::admin {

// Before an object goes. The first is plain, the other one throws.
bool TakesAway(const ObjectAccess& access);
void CheckTakenAway(const ObjectAccess& access);

// A utility statement while it runs: what is dropped meanwhile is dropped by the innermost. They nest, where an event
// trigger or a function runs statements of its own.
struct DropCommand {
  bool drops_tables;   // DROP TABLE: each day table answers for itself
  bool drops_owned;    // DROP OWNED, and the extension stays
  bool whole_checked;  // the whole log has been checked
  DropCommand* outer;
};

// Around every utility statement, whether it succeeds or not. Plain; the first may raise, and then has begun nothing.
void BeginDropCommand(Node* statement, DropCommand* command);
void EndDropCommand(const DropCommand* command);

}  // namespace outbox::admin
