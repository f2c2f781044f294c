// SQL's own commands that mean something to the outbox [P], in sessions that have the module loaded: all of them, where
// it is preloaded. There is one hook on utility statements, and one table (utility_hook.cpp) says which statements are
// looked at, and by whom:
//
//   ../guard/loss     members of the extension that ALTER EXTENSION takes away
//   table_commands    what is done to the tables of outbox by other hands: ALTER TABLE, DROP, RENAME
//   trigger_commands, copy_commands, view_locks   likewise: their triggers, COPY, LOCK
//   object_commands   its functions, views, types and wrappers, by other hands
//   server_commands   DROP SERVER and its renaming, because routes name their server
//   user_mapping      a user mapping that nobody uses
//   setting_commands  settings of the system, a database or a role
//   database_bar      DROP, ALTER and copying of a database, for which its workers have to leave
//
// What a statement does along with what it says, or inside of another command, no utility hook sees: see access_hook.h.
#pragma once

#include "pg/prelude.h"

namespace outbox::admin {

// What holds while a statement runs. Plain.
struct UtilityScope {
  // `alone`: a command of its own, outside of a transaction block. What it returns is handed to `leave`. May raise.
  int64 (*enter)(Node* statement, bool alone);
  // `done`: the statement has succeeded. Its tree may be gone where it commits in the middle (databases). May raise if
  // done.
  void (*leave)(Node* statement, int64 held, bool done);
};

// Once per backend, from _PG_init.
void InstallUtilityHook();

}  // namespace outbox::admin
