// Transaction ids that have gone back (pg_resetwal -x with a number too low, or pg_resetwal -f after a crash) [P
// behind].
//
// A lane takes what is written with an id below its position for done. So events would count as delivered, and never be
// sent. A row of outbox that was written with an id which the server is still to hand out is the proof, as long as ids
// have not got there: so the first claim of a process looks for one. What it has found holds until the server is
// started anew, for the ids will pass the rows and leave no trace.
#pragma once

namespace outbox::log {

// Throws pg::PgError, from when that was found by any process of the server. In no transaction.
void RefuseUsedXids();

}  // namespace outbox::log
