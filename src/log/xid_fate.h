// Which rows of a window are really there [P]: commit status looked up once per transaction id, nothing written to the
// page. (Hint bits of a first read are WAL where checksums are on: 361 bytes per event of a backlog.) Plain code.
#pragma once

#include "pg/prelude.h"

namespace outbox::log {

// Good for the transactions that have finished in one window's end; make a new one for every pass.
class XidFates {
 public:
  // The row was inserted by a transaction (or subtransaction) that committed and was not deleted by hand. The row's
  // top-level transaction must have finished. Call with the page locked.
  bool Committed(HeapTupleHeader tuple);

 private:
  bool Lookup(TransactionId xid);

  static constexpr int kSlots = 1024;
  struct Slot {
    TransactionId xid = InvalidTransactionId;
    bool committed = false;
  };
  Slot slots_[kSlots];
};

}  // namespace outbox::log
