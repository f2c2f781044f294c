// SQL functions about the background workers [P].
#include "pg/entry.h"
#include "worker/launcher.h"

// outbox.look_again(): the launcher looks at this database when the transaction commits.
OUTBOX_FUNCTION(outbox_look_again) {
  outbox::worker::WakeLauncherAtCommit(true);
  PG_RETURN_VOID();
}
