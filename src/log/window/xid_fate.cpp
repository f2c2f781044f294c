#include "log/window/xid_fate.h"

namespace outbox::log {

bool XidFates::Lookup(TransactionId xid) {
  Slot& slot = slots_[xid % kSlots];
  if (slot.xid != xid) {
    slot.committed = TransactionIdDidCommit(xid);
    slot.xid = xid;
    if (slot.committed) {
      commit_lsn_ = Max(commit_lsn_, TransactionIdGetCommitLSN(xid));  // shares the lookup
    }
  }
  return slot.committed;
}

bool XidFates::Committed(HeapTupleHeader tuple) {
  if (HeapTupleHeaderXminFrozen(tuple)) {
    commit_lsn_ = UINT64_MAX;  // committed, but its status may have been truncated away
  } else if (HeapTupleHeaderXminInvalid(tuple) || !Lookup(HeapTupleHeaderGetRawXmin(tuple))) {
    // Even where a hint bit says "committed": it may be set before that commit is flushed.
    return false;
  }
  if ((tuple->t_infomask & HEAP_XMAX_INVALID) != 0 || HEAP_XMAX_IS_LOCKED_ONLY(tuple->t_infomask)) {
    return true;
  }
  TransactionId deleter = HeapTupleHeaderGetUpdateXid(tuple);
  return !TransactionIdIsValid(deleter) || !TransactionIdDidCommit(deleter);
}

}  // namespace outbox::log
