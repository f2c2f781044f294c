// Module entry [P]: settings, shared memory, callbacks, launcher. No client library, no thread, nothing that owns.
#include "admin/commands/access_hook.h"
#include "admin/commands/rows_of_another_version.h"
#include "admin/commands/utility_hook.h"
#include "base/version.h"
#include "emit/replica_role.h"
#include "metrics/emitted.h"
#include "pg/entry.h"
#include "pg/planning.h"
#include "pg/settings.h"
#include "pg/shared.h"
#include "pg/transaction_end.h"
#include "worker/destination_config.h"
#include "worker/launcher.h"

extern "C" {

#ifdef PG_MODULE_MAGIC_EXT
PG_MODULE_MAGIC_EXT(.name = "outbox", .version = outbox::kVersion);
#else
PG_MODULE_MAGIC;
#endif

void _PG_init(void) {
  outbox::pg::DefineSettings();
  outbox::pg::RegisterTransactionEnd({outbox::metrics::CountAtTransactionEnd, outbox::metrics::CountAtSavepointEnd});
  outbox::emit::InstallReplicaRoleHook();
  outbox::admin::InstallUtilityHook();
  outbox::admin::InstallAccessHook();
  outbox::admin::InstallOtherVersionHook();
  outbox::pg::InstallPlanningHooks();
  outbox::worker::CountSinkDescriptors();
  if (process_shared_preload_libraries_in_progress) {
    outbox::pg::InstallSharedMemoryHooks();
    outbox::metrics::InstallSharedMemoryHooks();
    outbox::worker::RegisterLauncher();
    outbox::pg::Entry([] { outbox::worker::KeepSinkPrograms(); });
  }
}

}  // extern "C"
