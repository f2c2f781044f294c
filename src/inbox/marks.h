// Marks: which consumer has handled which event [P]. Plain.
#pragma once

#include "pg/prelude.h"

namespace outbox::inbox {

// Marks it for the consumer, in the current transaction; true: it was not marked. Waits for another transaction that
// has just marked it, as at any unique index. An id older than what is kept: as outbox.inbox_expired says. 22023: its
// time is so far ahead that it has no table yet.
bool Receive(Datum consumer, const pg_uuid_t* id);

// One id of many.
struct Candidate {
  pg_uuid_t id;
  int order;  // in the caller's list
  int table;
  bool accepted;
  bool fresh;
};
// The same for many at once; sets `fresh` of those that are new, of equal ones of the first. Reorders them: by table
// and id, so that two batches never wait for each other in a circle.
void ReceiveMany(Datum consumer, Candidate* candidates, int count);

}  // namespace outbox::inbox
