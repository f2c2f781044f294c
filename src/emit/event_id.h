// Event ids [P]: UUIDv7 made from the clock reading. Plain code.
//
// The random part comes from a generator of this process (xoshiro256++, Blackman and Vigna 2019), seeded once per
// process from the system's strong source: asking that for every event costs more than the insert. Ids are unique, not
// secret; do not use them as passwords.
#pragma once

#include "pg/prelude.h"

namespace outbox::emit {

void MakeEventId(int64 micros, pg_uuid_t* id);

}  // namespace outbox::emit
