// Parking beside forget() [P behind, no Postgres type in sight]. A lane that has read an event before forget() erased
// it still has its payload in memory, and must not park it afterwards: what is parked is sent from there. So:
//
//   forget()       erases and commits, which counts (pg::NoteErasure); waits for those who are parking (AwaitParking);
//                  looks for parked events of the key.
//   a lane         parks what it has in memory; makes sure that nothing was erased that its worker has not put down
//                  (RefuseErased); commits.
//   who copies     from the log says so (BeginCopy) before the statement that reads it; commits.
//
// Who parks is seen by forget(), or sees that it was there. Refused rows are read again, without what was erased.
//
// Single-threaded. Owned by the worker; outlives its lanes.
#pragma once

#include <cstdint>

namespace outbox::parked {

class Erasures {
 public:
  Erasures() : put_down_(Count()) {}

  // Whether something was erased since the last call: the worker puts down what it has read before.
  bool TakeNew();
  // For a transaction that parks. Raises where something was erased since TakeNew(); else AwaitParking() waits for the
  // transaction. Plain.
  void RefuseErased() const;

 private:
  static uint64_t Count();

  uint64_t put_down_;
};

// For a transaction that copies rows of the log to outbox_internal.parked, before it takes the snapshot that it reads
// them by: AwaitParking() waits for it. Plain.
void BeginCopy();

// Returns when transactions have ended that had been through RefuseErased() or BeginCopy(). Call in a transaction that
// began after the erasure was committed. Plain; interruptible.
void AwaitParking();

}  // namespace outbox::parked
