// The databases of the server [P]. For the launcher, which is connected to none: shared catalogs only.
#pragma once

#include "pg/prelude.h"

namespace outbox::worker {

struct DatabaseList {
  int all_count;
  Oid* all;  // every database
  int eligible_count;
  Oid* eligible;  // not a template, allows connections, not half dropped
  NameData* eligible_names;
};

// Runs its own transaction; the arrays are allocated in `context`. Throws PgError.
DatabaseList ReadDatabases(MemoryContext context);

// Plain.
bool Contains(const Oid* oids, int count, Oid wanted);

// Lifts the bars of backends that have gone without doing so (they were killed). Takes the lock. Plain.
void LiftDeadBars();

}  // namespace outbox::worker
