// Is WAL up to a position safe, here and on the standbys that synchronous_standby_names asks for? [P] Plain code.
#pragma once

#include "pg/prelude.h"

namespace outbox::log {

// Flushes locally, then looks at the walsenders' positions without waiting: SyncRepWaitForLSN would wait without
// absorbing barriers and obey this process' own synchronous_commit. A standby counts once it has flushed. No
// transaction needed.
bool MakeDurable(XLogRecPtr lsn);

// The server waits for standbys at commit (unless a transaction asks it not to).
bool StandbysAreAsked();

}  // namespace outbox::log
