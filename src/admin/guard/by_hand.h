// Rows that only outbox itself writes [P]: what is in them is the event as it waits, or how far it has been delivered.
//
// By hand a payload could be exchanged, an event given up or put before another one of its key, or a position moved
// over what was never sent, and no function would have checked or audited it. So for everybody's hand, a superuser's
// too, the triggers of schema/27_loss.sql refuse UPDATE of these columns of these tables, INSERT of routes and lanes
// and of what a dump has parked (pg_dump --inserts), and every change of the tables that are only ever appended to
// (positions, ticks) and of pauses; each with the name of the function that does what was probably meant. `SET
// outbox.allow_loss = on` lets it through, and the audit says what was done. DELETE and TRUNCATE of events, routes and
// lanes ask for more: loss.h.
//
// What outbox does itself is not asked: pg::InOwnStatement(). Nor is a restore, which brings rows before the outbox is
// in use.
#pragma once

#include "pg/prelude.h"

namespace outbox::admin {

// Whether a table of that name, of outbox, has such rows. Plain.
bool OnlyOutboxWrites(const char* table);

// Whether this outbox was settled in this very database: what is in it counts, and no restore is bringing it. Under
// another outbox.instance, too: such a copy of the files waits for adopt() with all that it has, and publishes nothing
// (pg::Identities says whether it does). Throws.
bool IsSettledHere();

}  // namespace outbox::admin
