// Which roles may emit to which topics [P]: outbox_internal.emit_right, see outbox.grant_emit(). Plain code.
//
// A row is of the role with its oid, where that is an oid of this server and the role is there: so a renamed role keeps
// its limit. Else it is of the role with its name: there was none when a dump brought the row, or the oid is another
// server's. The current role's own row decides; without one, those of the roles it is a member of: free if there is
// none or one of them has no limit, else what all of them allow together. Superusers and the extension's owner are
// free. An event without a topic of its own counts as outbox.event.<aggregate type>, whatever the routes make of it.
#pragma once

#include "emit/check.h"

namespace outbox::emit {

// At the beginning of a function that emits. A statement that only calls a function opens no table, and does not hear
// of what was revoked while its transaction is open, as an INSERT would: so it is heard of here, and if anything was,
// the caller's right to the function is asked once more (42501). Where nothing was changed this costs a comparison.
void HearOfRights(FunctionCallInfo fcinfo);

// Raises 42501. A look-up in a small cache, which changes of rights and memberships clear.
void CheckTopicRight(const NewEvent* event);

}  // namespace outbox::emit
