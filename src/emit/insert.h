// The write itself [P]: rows straight into today's day table, past SPI, planner and parent. Plain code on the hot path:
// nothing here owns anything.
#pragma once

#include "emit/new_event.h"

namespace outbox::emit {

// Checks only that this transaction may write; for the event see check.h. Fills id and created_at. An event whose key
// has emitted before is not written: it is `repeated` then.
void InsertEvent(NewEvent* event);
// InsertEvent for `count` events in order, with fewer WAL records. Give it batches of kInsertBatch: memory grows with
// them. `*at` tells whoever has to say what an error is about: the event whose key is being taken, else -1.
inline constexpr int kInsertBatch = 500;
void InsertEvents(NewEvent* events, int count, int* at);
// Events of a restored dump, with the created_at and the id (own_id) that they had there, under `xid`, which is below
// all transaction ids of this server: lanes know what to do with it, see outbox_internal.adoption.
void InsertAdopted(NewEvent* events, int count, uint64 xid);

}  // namespace outbox::emit
