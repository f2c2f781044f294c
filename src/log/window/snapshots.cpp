#include "log/window/snapshots.h"

#include <algorithm>

extern "C" {
#include "access/xlog_internal.h"
}

namespace outbox::log {

namespace {

// Source: widen_snapshot_xid in xid8funcs.c. All xids of a snapshot are within 2^31 of the next one.
uint64 Widen(TransactionId xid, FullTransactionId next) {
  if (!TransactionIdIsNormal(xid)) {
    return xid;
  }
  uint32 epoch = EpochFromFullTransactionId(next);
  if (xid > XidFromFullTransactionId(next)) {
    epoch--;
  }
  return static_cast<uint64>(epoch) << 32 | xid;
}

}  // namespace

void ReadActiveSnapshot(outbox::Snapshot* snapshot) {
  ::Snapshot active = GetActiveSnapshot();
  FullTransactionId next = ReadNextFullTransactionId();
  snapshot->xmin = Widen(active->xmin, next);
  snapshot->xmax = Widen(active->xmax, next);
  snapshot->xip.clear();
  for (uint32 i = 0; i < active->xcnt; i++) {  // top-level ids only, whether or not subtransactions overflowed
    snapshot->xip.push_back(Widen(active->xip[i], next));
  }
  std::sort(snapshot->xip.begin(), snapshot->xip.end());
}

uint64_t DurableTarget() {
  XLogRecPtr lsn = GetXLogInsertRecPtr();
  if (XLogSegmentOffset(lsn, wal_segment_size) == SizeOfXLogLongPHD) {
    lsn -= SizeOfXLogLongPHD;
  } else if (lsn % XLOG_BLCKSZ == SizeOfXLogShortPHD) {
    lsn -= SizeOfXLogShortPHD;
  }
  return lsn;
}

uint64_t FinishedBetween(const outbox::Snapshot& from, const outbox::Snapshot& to) {
  XidRange xids = WindowXids(from, to);
  uint64_t finished = xids.late.size();
  if (xids.begin < xids.end) {
    auto first = std::lower_bound(to.xip.begin(), to.xip.end(), xids.begin);
    auto last = std::lower_bound(first, to.xip.end(), xids.end);
    finished += xids.end - xids.begin - static_cast<uint64_t>(last - first);
  }
  return finished;
}

}  // namespace outbox::log
