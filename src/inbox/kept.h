// From which day on marks are kept, and the emptying of days before it [P]. Plain.
//
// outbox_internal.inbox_kept has one row, which only goes forward: what is older may have been forgotten, so nobody can
// say of an id of such a day whether it was handled. A session holds RowExclusiveLock on the table of a day while it
// compares, and an emptying needs that table alone, and not of its own transaction either: the mark of an id that was
// found kept stays until the transaction ends.
//
// A table is emptied by new storage, which a snapshot does not go by: a dump that began before would have the row that
// keeps the day, and no marks of it. So the row moves first, and the day's table is emptied by a later transaction,
// when every snapshot sees the row that has moved. Until then marks are there that are not kept any more, and count.
//
// The row is moved and tables are emptied by the callers themselves, so that no worker and no preload is needed. It is
// the last thing that their transactions do before they commit: emptying a table locks it for all, and a transaction
// may lie idle for hours after its call. No lock is waited for. A prepared transaction does nothing of it, because it
// would hold the locks until somebody ends it: where all are prepared and there is no keeper, marks are kept for
// longer.
#pragma once

#include "pg/prelude.h"

namespace outbox::inbox {

struct Kept {
  bool settled;      // the row is there; until then nothing was ever emptied
  int32 from;        // day, from 1970-01-01 UTC
  int32 emptied_to;  // marks of the days from here to `from` are to go
  int64 turned_at;   // when an undated table was last emptied: Unix microseconds
  int last_emptied;  // which one
  TransactionId written_by;
};

// The transaction's time, Unix microseconds.
int64 TransactionMicros();
// As committed by now. From a cache, which changes clear.
Kept CurrentKept();

// What a call has its transaction do at its commit, when it has marked; in next to no time where there is nothing to
// do. `seen`: the newest time of the ids that were received; days are given up by the smaller of both clocks, the
// producer's and ours, so that one which has jumped ahead drops nothing.
void KeepAtCommit(int64 now, int64 seen);
// The same at once, for a process that receives nothing, in a transaction that commits right behind it: by the newest
// mark that is there.
void KeepInRound();
// The day that marks are to be kept from when the newest event is of that time: the row is there, or has to be moved.
int32 DueDay(int64 now, int64 seen);

}  // namespace outbox::inbox
