// session_replication_role = replica [P]: what emits still emits. Ordinary triggers do not fire in such a session (a
// subscription's apply worker is one, bulk loads are others), and the INSTEAD OF triggers of the view outbox.event are
// ordinary ones: there is no ENABLE ALWAYS for views. An INSERT into the view would succeed and leave nothing. So, in
// sessions that have the module loaded (all, where it is preloaded), the view's triggers fire whatever the role is.
// outbox.emit() and its family need no trigger. Triggers of users (outbox.emit_row) obey the role, as they should.
#pragma once

#include "pg/prelude.h"

namespace outbox::emit {

// Once per backend, from _PG_init.
void InstallReplicaRoleHook();

// Whether rows of a COPY ... FROM into this view, ours or one with a trigger of ours, would be lost (no hook of the
// executor sees COPY). Plain.
bool InsertsWouldBeLost(Oid relation);

}  // namespace outbox::emit
