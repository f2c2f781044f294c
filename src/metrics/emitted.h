// What sessions emit, counted when it is committed [P]: not what was rolled back, with a savepoint or with all of the
// transaction, and what was prepared when it commits. Plain code on the path of emit().
#pragma once

#include "metrics/store.h"

namespace outbox::metrics {

// For pg::RegisterTransactionEnd(): before the workers are woken, since they are to find the time of the commit.
void CountAtTransactionEnd(XactEvent event);
void CountAtSavepointEnd(SubXactEvent event);

// This transaction has written `events` events, whose payloads have so many bytes.
void NoteEmitted(uint64 events, uint64 bytes);

// A call wrote nothing, because its dedupe_key had emitted before. Counted at once, whatever becomes of the
// transaction.
void NoteRepeated();

// Counts what was prepared and has committed since. No callback runs at COMMIT PREPARED: the keeper calls this now and
// then, and so does outbox.metrics(). What ended so long ago that pg_xact has it no more is not counted. Does not
// raise; call without light-weight locks.
void SettlePrepared();

}  // namespace outbox::metrics
