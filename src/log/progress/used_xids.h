// Transaction ids that have gone back (pg_resetwal -x or -e with a number too low, or pg_resetwal -f after a crash or
// with a pg_control that was lost) [P behind].
//
// A lane takes what is written with an id below its position for done. So events would count as delivered, and never be
// sent. A row of outbox that was written with an id which the server is still to hand out is the proof, as long as ids
// have not got there; so is a position that ends above the next id, which has its epoch, too. So the first claim of a
// process looks for them. What it has found holds until the server is
// started anew, for the ids will pass the rows and leave no trace.
#pragma once

namespace outbox::log {

// Throws pg::PgError, from when that was found by any process of the server. In no transaction.
void RefuseUsedXids();

}  // namespace outbox::log
