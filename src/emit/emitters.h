// Who emitted what of the current transaction [P]: the view outbox.event shows an event only to a role that has the
// rights of the one that emitted it, not to whoever happens to share its transaction: a SECURITY DEFINER function emits
// as its owner, and what an emit_row trigger emits of a table that its writer may not read is the table owner's. Plain
// code.
//
// The log has no column for that, and needs none: readings of the clock rise, so it is enough to know from which
// reading on another role was at it.
#pragma once

#include "pg/prelude.h"

namespace outbox::emit {

// The role emits with this reading. Call before the row is written, with the transaction's xid assigned. Costs a few
// comparisons as long as the role is the same.
void NoteEmitter(Oid role, int64 reading);

// Whether the role may see an event that the current transaction has emitted at this reading.
bool MaySee(Oid role, int64 reading);

}  // namespace outbox::emit
