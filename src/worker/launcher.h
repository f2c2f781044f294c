// The launcher [P]: one process per server that starts and stops keepers and relay workers. See README.md beside.
#pragma once

#include "pg/prelude.h"

namespace outbox::worker {

// From _PG_init while shared_preload_libraries are loaded.
void RegisterLauncher();

}  // namespace outbox::worker
