// What outbox does at other commands [P], in sessions that have the module loaded (all of them, where it is preloaded).
//
// Routes name their server, because an oid does not survive a dump. So:
//   DROP SERVER of a server that routes use is refused (2BP01), also with CASCADE, which people write to get rid of the
//   user mappings; dropping the wrapper or the extension with CASCADE is not, unless events are undelivered (loss.h).
//   ALTER SERVER ... RENAME renames it in the routes as well.
// A server that is dropped in spite of this shows as trouble of the lane: the route names a server that does not exist.
//
// Only the owner may CREATE TRIGGER on a table of outbox, whatever was granted. COPY into outbox.event is refused where
// it would lose the events (emit/replica_role.h).
#pragma once

namespace outbox::admin {

// Once per backend, from _PG_init.
void InstallCommandHook();

}  // namespace outbox::admin
