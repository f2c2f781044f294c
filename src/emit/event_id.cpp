#include "base/uuid.h"

#include "emit/event_id.h"

namespace outbox::emit {

namespace {

uint64 state[4];
pid_t seeded_by = 0;  // a forked process must not repeat its parent's numbers

uint64 Rotate(uint64 x, int k) {
  return (x << k) | (x >> (64 - k));
}

uint64 NextRandom() {
  if (seeded_by != MyProcPid) {
    if (!pg_strong_random(state, sizeof(state))) {
      ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate random values")));
    }
    state[0] |= 1;  // never all zero
    seeded_by = MyProcPid;
  }
  uint64 result = Rotate(state[0] + state[3], 23) + state[0];
  uint64 t = state[1] << 17;
  state[2] ^= state[0];
  state[3] ^= state[1];
  state[1] ^= state[2];
  state[0] ^= state[3];
  state[2] ^= t;
  state[3] = Rotate(state[3], 45);
  return result;
}

}  // namespace

void MakeEventId(int64 micros, pg_uuid_t* id) {
  Uuid made = MakeUuid7(micros, NextRandom() >> 2);
  memcpy(id->data, made.data(), UUID_LEN);
}

}  // namespace outbox::emit
