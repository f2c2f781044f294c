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
  // WAL position whose flush makes the commits seen so far durable on this server: 0 when all are, which is so unless
  // somebody committed asynchronously a moment ago; UINT64_MAX when it cannot be told.
  uint64 commit_lsn() const { return commit_lsn_; }

 private:
  bool Lookup(TransactionId xid);

  static constexpr int kSlots = 1024;
  struct Slot {
    TransactionId xid = InvalidTransactionId;
    bool committed = false;
  };
  Slot slots_[kSlots];
  uint64 commit_lsn_ = 0;
};

}  // namespace outbox::log
