// The launcher [P]: one process per server that starts and stops keepers and relay workers. See README.md beside.
#pragma once

#include "pg/prelude.h"

namespace outbox::worker {

// From _PG_init while shared_preload_libraries are loaded.
void RegisterLauncher();
// DROP, ALTER and copying of a database first stop that database's workers.
void InstallUtilityHook();

}  // namespace outbox::worker
