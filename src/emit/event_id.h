// Event ids [P]: UUIDv7 made from the clock reading. Plain code.
//
// The random part comes from PostgreSQL's generator (common/pg_prng.h), with a state of our own that is seeded once
// per process from the system's strong source: asking that for every event costs more than the insert, and the state
// that PostgreSQL keeps makes do with the time and the process id where that source fails. Ids are unique, not
// secret; do not use them as passwords.
#pragma once

#include "pg/prelude.h"

namespace outbox::emit {

void MakeEventId(int64 micros, pg_uuid_t* id);

}  // namespace outbox::emit
