#include "log/progress/used_xids.h"

#include "days/day_table_ddl.h"
#include "pg/guard.h"
#include "pg/schemas.h"
#include "pg/shared.h"
#include "pg/sql.h"
#include "pg/transaction.h"
#include "pg/trouble_hints.h"
#include "pg/try.h"

extern "C" {
#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_inherits.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
}

namespace outbox::log {

using namespace pg::sql;

namespace {

// Progress is appended: where the newest rows are.
constexpr BlockNumber kLastBlocks = 8;

void NoteNewest(Page page, TransactionId* newest) {
  for (OffsetNumber at = FirstOffsetNumber; at <= PageGetMaxOffsetNumber(page); at++) {
    ItemId item = PageGetItemId(page, at);
    if (!ItemIdIsNormal(item)) {
      continue;
    }
    const auto* row = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
    const TransactionId xid = HeapTupleHeaderGetRawXmin(row);
    if (TransactionIdIsNormal(xid) && !HeapTupleHeaderXminFrozen(row) &&
        (!TransactionIdIsValid(*newest) || TransactionIdFollows(xid, *newest))) {
      *newest = xid;
    }
  }
}

// Whatever is there, visible or not: to a snapshot such a row is of a transaction that has not begun. False: somebody
// has the table locked.
bool LookThrough(Oid oid, BlockNumber blocks, TransactionId* newest) {
  if (!ConditionalLockRelationOid(oid, AccessShareLock)) {
    return false;
  }
  Relation table = try_table_open(oid, NoLock);
  if (table == nullptr) {
    return true;
  }
  const BlockNumber end = RelationGetNumberOfBlocks(table);
  for (BlockNumber block = end > blocks ? end - blocks : 0; block < end; block++) {
    Buffer buffer = ReadBuffer(table, block);
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    NoteNewest(BufferGetPage(buffer), newest);
    UnlockReleaseBuffer(buffer);
    CHECK_FOR_INTERRUPTS();
  }
  table_close(table, NoLock);
  return true;
}

// The id before the highest end of a saved position of this server; 0: there is none. A row has 32 bits of an id only,
// so one that has gone back by an epoch, or by more than half of one, looks like an earlier one there.
uint64 LastOfPositions() {
  static Statement highest = {
      "SELECT max(greatest(pg_snapshot_xmax(p.window_from), pg_snapshot_xmax(p.window_to))::text::bigint)"
      " FROM outbox_internal.position p JOIN outbox_internal.lane l ON l.route_id = p.route_id AND l.lane = p.lane"
      " WHERE l.home = outbox_internal.home()",
      0,
      {},
      nullptr};
  RunStatement(&highest, nullptr);
  return ResultText(0, 0) == nullptr ? 0 : static_cast<uint64>(ResultInt64(0, 0)) - 1;
}

void NoteUsed(uint64 xid) {
  if (xid > pg_atomic_read_u64(&pg::Shared()->used_xid)) {
    pg_atomic_write_u64(&pg::Shared()->used_xid, xid);
  }
}

// A claim and a release write to the lane, a delivery to the progress: whatever was saved last has an id above the
// position in it.
bool LookForUsedXids() {
  TransactionId newest = InvalidTransactionId;
  bool all = LookThrough(pg::FindOurRelation("lane"), MaxBlockNumber, &newest);
  ListCell* cell = nullptr;
  foreach (cell, find_inheritance_children(days::DayTableParent(days::DayTableKind::kProgress), NoLock)) {
    all = LookThrough(lfirst_oid(cell), kLastBlocks, &newest) && all;
  }
  // Read afterwards: what somebody wrote meanwhile has a lower one.
  const FullTransactionId next = ReadNextFullTransactionId();
  if (TransactionIdIsValid(newest) && TransactionIdFollowsOrEquals(newest, XidFromFullTransactionId(next))) {
    NoteUsed(U64FromFullTransactionId(next) + (newest - XidFromFullTransactionId(next)));
  }
  // A snapshot ends at the next id at most.
  const uint64 last = LastOfPositions();
  if (last >= U64FromFullTransactionId(ReadNextFullTransactionId())) {
    NoteUsed(last);
  }
  return all;
}

bool looked = false;

}  // namespace

void RefuseUsedXids() {
  if (!looked) {
    try {
      pg::InTransaction(CurrentMemoryContext, [] { looked = LookForUsedXids(); });
    } catch (const pg::PgError& error) {
      if (!pg::IsUnreadable(pg::StatusOf(error).error().code)) {
        throw;
      }
      looked = true;  // no lane may need that page
    }
  }
  const uint64 used = pg_atomic_read_u64(&pg::Shared()->used_xid);
  if (used != 0) {
    pg::Guard([used] {
      ereport(ERROR,
              (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
               errmsg("transaction ids have gone back: the server hands out some that it used before"),
               errdetail("When it was started the next one was not above %u of epoch %u, which a row or a position of "
                         "outbox has. Lanes would take what is emitted with such an id for sent.",
                         static_cast<uint32>(used), static_cast<uint32>(used >> 32)),
               errhint("%s", pg::kUsedXidsHint)));
    });
  }
}

}  // namespace outbox::log
