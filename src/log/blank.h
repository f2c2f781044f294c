// Erasing what one row of the log says, in its place [P]: the one exception to "no row of the log is ever changed".
//
// An UPDATE would make a second row, which a window that is being read could hand out beside the first. So the bytes
// are overwritten where they are: same place, same xid, same visibility, payload and headers empty, toast zeroed.
// Readers look at rows with a pin and without a lock; the page is changed when nobody has it pinned. It is in the WAL
// (generic records: standbys follow, logical decoding sees nothing), and is not undone by a rollback.
#pragma once

#include "base/uuid.h"
#include "log/row.h"

namespace outbox::log {

// Erased: nobody sends it any more. No event that emit() takes looks like that: without a content type it is JSON and
// has a byte at least, with one that is not empty. In SQL: outbox._forgotten().
bool RowForgotten(const RowView& row);

// False: there is no such row at that place any more. The caller holds RowExclusiveLock on the day table since before
// he learnt the place. Plain. SQLSTATE 55P03 where somebody keeps the page for half a minute.
bool BlankRow(Relation day_table, BlockNumber block, OffsetNumber offset, const Uuid& id);

}  // namespace outbox::log
