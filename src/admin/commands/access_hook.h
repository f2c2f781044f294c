// What a statement does along with what it says, or inside of another command [P]: no utility hook sees it, and an
// object access hook is told. There is one, and one table (access_hook.cpp) says what is looked at, and by whom:
//
//   loss_of_objects          what goes with other things (CASCADE, DROP OWNED)
//   rows_of_another_version  what TRUNCATE reaches
//   trigger_commands, foreign_keys   triggers and foreign keys that are made
#pragma once

#include "pg/prelude.h"

namespace outbox::admin {

// Plain.
struct ObjectAccess {
  Oid catalog;
  Oid object;
  int column;
  void* argument;  // what it is hangs on the kind of access: see catalog/objectaccess.h
};

// Once per backend, from _PG_init.
void InstallAccessHook();

}  // namespace outbox::admin
