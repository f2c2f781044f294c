// Erasing what one row of the log says, where it lies [P]: the one exception to "no row of the log is ever changed".
//
// An UPDATE would make a second row, which a window that is being read could hand out beside the first. So the bytes
// are overwritten where they are: same place, same xid, same visibility, payload and headers empty, toast zeroed.
// Readers look at rows with a pin and without a lock; the page is changed while no reader has it pinned, here and on
// hot standbys, which wait for their readers or cancel them (max_standby_streaming_delay). It is in the WAL (an image
// of the page for each row; logical decoding sees nothing), and is not undone by a rollback.
#pragma once

#include "base/uuid.h"
#include "log/window/row.h"

namespace outbox::log {

// Whether the row was erased: it is not sent any more. No event that emit() accepts looks like this: without a content
// type the payload is JSON and has at least one byte, and a content type is never empty. In SQL:
// outbox_internal.forgotten().
bool RowForgotten(const RowView& row);

// Sets *blanked unless the row is not at that location any more; that stands if it raises afterwards, over what lies
// out of line. The caller must have held RowExclusiveLock on the day table since before it read the location. Plain.
// SQLSTATE 55P03 if another process keeps the page pinned for half a minute.
void BlankRow(Relation day_table, BlockNumber block, OffsetNumber offset, const Uuid& id, bool* blanked);

}  // namespace outbox::log
