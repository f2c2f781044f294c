#include "base/uuid.h"

#include "emit/event_id.h"

extern "C" {
#include "common/pg_prng.h"
}

namespace outbox::emit {

namespace {

pg_prng_state generator;
pid_t seeded_by = 0;  // a forked process must not repeat its parent's numbers

uint64 NextRandom() {
  if (seeded_by != MyProcPid) {
    if (!pg_prng_strong_seed(&generator)) {
      ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate random values")));
    }
    seeded_by = MyProcPid;
  }
  return pg_prng_uint64(&generator);
}

}  // namespace

void MakeEventId(int64 micros, pg_uuid_t* id) {
  Uuid made = MakeUuid7(micros, NextRandom() >> 2);
  memcpy(id->data, made.data(), UUID_LEN);
}

}  // namespace outbox::emit
