// The events of a restored dump on their way from outbox_internal.foreign_event into the log [P].
//
// A dump brings routes, positions and rows whose transaction ids are all the original's. So positions can tell which
// route has had which event, and nothing else. Each event is moved into its own day under its own created_at, and in
// place of its transaction id gets a number that no transaction of this server ever had: one for all events that the
// same routes have still to get (outbox_internal.adopted). A lane then starts with a window of the numbers that are its
// own, as if it had been half way; and all that was ever emitted here is still to come, behind them. So what the
// original had delivered is not sent again, what it had not is sent, byte for byte, to the routes that lack it, and
// order per key holds.
//
// Adoption runs in batches, in any session or in the keeper, and resumes after an interruption: first what is pending,
// and what its lanes had been moved behind, then its lanes are freed, then what the original had delivered, for
// outbox.status() and outbox.replay().
#pragma once

#include <string>

#include "admin/common/query.h"

namespace outbox::admin {

// To be written to when the lanes are freed: before they are read, see common/write_lock.h. Throws.
void LockLanesToGo();
// Positions as well, as strongly as they will have to be; waits for it, which workers do not. Throws.
void LockPositionsToGo();

// Whether there are lanes that came with a dump and must not be claimed yet.
bool HasRestoredLanes();

// Rows of outbox_internal.foreign_event by where they were diverted. A copy that is not adopted may be copied again, by
// its files or by a dump: what its original's dump brought it is the first, and the only one whose transaction ids
// positions can be compared with; its own log, which the second dump brings, comes later, and no route has had any of
// it.
struct RestoredRows {
  Cell first;
  Cell later;  // literal of text[]
};
// Asks outbox_internal.identity, which adopt() makes anew. Throws.
RestoredRows FindRestoredRows();

// Begins an adoption. With `nothing`, no route gets anything of the dump: what it had still to get is passed over.
// Returns false if one has begun already.
// Throws.
bool BeginAdoption(const RestoredRows& rows, bool nothing);

struct AdoptionStep {
  bool under_way = false;  // there is more to do, and no other session is doing it
  int64 looked = 0;        // rows of outbox_internal.foreign_event
  int64 sent = 0;          // of which this many are to be sent on some route
};

// Continues with about `rows` rows, in the caller's transaction. Throws.
AdoptionStep Adopt(int64 rows);

// Rows of the log that did not come by emit(), because the guard was switched off when they came (pg_restore
// --disable-triggers): moves them where the guard would have put them, and has the guard on again. Returns how many.
// Takes no lock that an emitter waits for. Without `wait`, a table that another session is changing is left for the
// next time; there must be one: an adoption that has begun takes only what was in foreign_event before. Throws.
int64 RepairGuards(bool wait);
// SQL: "x" of each transaction that brought such rows, as xmin has it, out of the rows of `log`: a relation with the
// columns x (that of the row) and xid.
std::string LoadingTransactions(const std::string& log);

}  // namespace outbox::admin
