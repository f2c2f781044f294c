#include "log/xid_fate.h"

namespace outbox::log {

bool XidFates::Lookup(TransactionId xid) {
  Slot& slot = slots_[xid % kSlots];
  if (slot.xid != xid) {
    slot.committed = TransactionIdDidCommit(xid);
    slot.xid = xid;
  }
  return slot.committed;
}

bool XidFates::Committed(HeapTupleHeader tuple) {
  if (!HeapTupleHeaderXminCommitted(tuple)) {
    if (HeapTupleHeaderXminInvalid(tuple) || !Lookup(HeapTupleHeaderGetRawXmin(tuple))) {
      return false;
    }
  }
  if ((tuple->t_infomask & HEAP_XMAX_INVALID) != 0 || HEAP_XMAX_IS_LOCKED_ONLY(tuple->t_infomask)) {
    return true;
  }
  TransactionId deleter = HeapTupleHeaderGetUpdateXid(tuple);
  return !TransactionIdIsValid(deleter) || !TransactionIdDidCommit(deleter);
}

}  // namespace outbox::log
