// Which rows of a window are committed [P]: commit status looked up once per transaction id, nothing written to the
// page. (Hint bits of a first read are WAL where checksums are on: 361 bytes per event of a backlog.) Plain code.
#pragma once

#include "pg/prelude.h"

namespace outbox::log {

// Valid for the transactions that have finished at one window's end; make a new one for every pass.
class XidFates {
 public:
  // Whether the row was inserted by a transaction (or subtransaction) that committed and was not deleted by hand. The
  // row's top-level transaction must have finished. Call with the page locked.
  bool Committed(HeapTupleHeader tuple);
  // WAL position whose flush makes the commits seen so far durable on this server: 0 when all are durable already,
  // which is so unless a transaction committed asynchronously a moment ago; UINT64_MAX if that cannot be told.
  uint64 commit_lsn() const { return commit_lsn_; }

 private:
  bool Lookup(TransactionId xid);

  // As many transactions as write side by side, or nearly: each small window begins with all of them empty.
  static constexpr int kSlots = 128;
  struct Slot {
    TransactionId xid = InvalidTransactionId;
    bool committed = false;
  };
  Slot slots_[kSlots];
  uint64 commit_lsn_ = 0;
};

}  // namespace outbox::log
