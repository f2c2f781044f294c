#include "log/window/blank.h"

#include "days/day_table.h"
#include "pg/server_versions.h"
#include "pg/wait.h"

extern "C" {
#include "access/detoast.h"
#include "access/genam.h"
#include "access/generic_xlog.h"
#include "access/htup_details.h"
#include "access/toast_internals.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/jsonb.h"
#include "utils/snapmgr.h"
}

namespace outbox::log {

namespace {

constexpr int kIdAt = 8;  // behind created_at, see row.cpp
constexpr int kPatienceMs = 30 * 1000;

bool Empty(const char* stored) {
  auto* value = reinterpret_cast<const struct varlena*>(stored);
  return !VARATT_IS_EXTERNAL(value) && VARSIZE_ANY_EXHDR(value) == 0;
}

// Returns the page pinned, and pinned by no other process. Its own pin does not outlast a try: several that wait for
// the same page would wait for one another.
Buffer LockForBlanking(Relation relation, BlockNumber block) {
  uint32 wait_event = pg::WaitEventFor("OutboxForget");
  for (int waited = 0;; waited += 10) {
    Buffer buffer = ReadBuffer(relation, block);
    if (ConditionalLockBufferForCleanup(buffer)) {
      return buffer;
    }
    ReleaseBuffer(buffer);
    if (waited >= kPatienceMs) {
      ereport(ERROR, (errcode(ERRCODE_LOCK_NOT_AVAILABLE),
                      errmsg("could not erase events of \"%s\"", RelationGetRelationName(relation)),
                      errdetail("A session is reading the page all the time, with a cursor perhaps."),
                      errhint("Call outbox.forget() again when it has ended: what is erased stays so.")));
    }
    pg::WaitWhole(10, wait_event);  // else who has the latch set has used up the patience
  }
}

HeapTupleHeader TupleAt(Page page, OffsetNumber offset, uint32* size) {
  if (offset > PageGetMaxOffsetNumber(page) || !ItemIdIsNormal(PageGetItemId(page, offset))) {
    return nullptr;
  }
  *size = ItemIdGetLength(PageGetItemId(page, offset));
  return reinterpret_cast<HeapTupleHeader>(PageGetItem(page, PageGetItemId(page, offset)));
}

// Whoever reads on a hot standby holds a pin, too, and what he has taken apart points into the page. Generic records
// are applied under him; those of pruning wait until nobody has a pin, or cancel him, as vacuum does. So the page goes
// as an image with one of these.
void WriteUnread(Relation table, Buffer buffer, const char* page) {
  xl_heap_prune pruning;
  const uint8 kind = pg::MakeEmptyPruning(&pruning);
  CritSectionCount = CritSectionCount + 1;  // START_CRIT_SECTION() is not C++20
  memcpy(BufferGetPage(buffer), page, BLCKSZ);
  MarkBufferDirty(buffer);
  if (RelationNeedsWAL(table)) {
    XLogBeginInsert();
    XLogRegisterData(reinterpret_cast<char*>(&pruning), SizeOfHeapPrune);
    XLogRegisterBuffer(0, buffer, REGBUF_STANDARD | REGBUF_FORCE_IMAGE);
    const XLogRecPtr lsn = XLogInsert(RM_HEAP2_ID, kind);
    PageSetLSN(BufferGetPage(buffer), lsn);
  }
  CritSectionCount = CritSectionCount - 1;
}

// The chunks of a value that no row points to any more become zeros; they go with the day. Length and place stay: a
// generic record will do.
void BlankToast(const struct varlena* pointer) {
  struct varatt_external value;
  VARATT_EXTERNAL_GET_POINTER(value, pointer);
  Relation toast = table_open(value.va_toastrelid, RowExclusiveLock);
  TupleDesc desc = RelationGetDescr(toast);
  Relation* indexes = nullptr;
  int count = 0;
  int valid = toast_open_indexes(toast, RowExclusiveLock, &indexes, &count);
  ScanKeyData key;
  ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(value.va_valueid));
  SnapshotData snapshot;
  InitDirtySnapshot(snapshot);
  SysScanDesc scan = systable_beginscan_ordered(toast, indexes[valid], &snapshot, 1, &key);
  List* places = NIL;
  HeapTuple chunk = nullptr;
  while ((chunk = systable_getnext_ordered(scan, ForwardScanDirection)) != nullptr) {
    ItemPointer place = static_cast<ItemPointer>(palloc(sizeof(ItemPointerData)));
    *place = chunk->t_self;
    places = lappend(places, place);
  }
  systable_endscan_ordered(scan);
  ListCell* cell;
  foreach (cell, places) {
    auto* place = static_cast<ItemPointer>(lfirst(cell));
    Buffer buffer = LockForBlanking(toast, ItemPointerGetBlockNumber(place));
    GenericXLogState* log = GenericXLogStart(toast);
    Page page = GenericXLogRegisterBuffer(log, buffer, 0);
    HeapTupleData tuple;
    tuple.t_data = TupleAt(page, ItemPointerGetOffsetNumber(place), &tuple.t_len);
    tuple.t_tableOid = RelationGetRelid(toast);
    tuple.t_self = *place;
    if (tuple.t_data != nullptr) {
      bool null = true;
      auto* data = reinterpret_cast<struct varlena*>(DatumGetPointer(fastgetattr(&tuple, 3, desc, &null)));
      memset(VARDATA_ANY(data), 0, VARSIZE_ANY_EXHDR(data));
    }
    GenericXLogFinish(log);
    UnlockReleaseBuffer(buffer);
  }
  toast_close_indexes(indexes, count, NoLock);
  table_close(toast, NoLock);
}

}  // namespace

bool RowForgotten(const RowView& row) {
  if (row.value[kPayload] != nullptr) {
    return Empty(row.value[kPayload]) && (row.value[kContentType] == nullptr || Empty(row.value[kContentType]));
  }
  // A tombstone with an object of headers that has no member: emit() makes NULL of it.
  auto* headers = reinterpret_cast<const struct varlena*>(row.value[kHeaders]);
  return headers != nullptr && !VARATT_IS_EXTERNAL(headers) && VARSIZE_ANY_EXHDR(headers) == sizeof(uint32);
}

void BlankRow(Relation day_table, BlockNumber block, OffsetNumber offset, const Uuid& id, bool* blanked) {
  Buffer buffer = LockForBlanking(day_table, block);
  PGAlignedBlock copy;
  Page page = static_cast<Page>(copy.data);
  memcpy(page, BufferGetPage(buffer), BLCKSZ);
  HeapTupleData old;
  old.t_data = TupleAt(page, offset, &old.t_len);
  old.t_tableOid = RelationGetRelid(day_table);
  ItemPointerSet(&old.t_self, block, offset);
  if (old.t_data == nullptr || HeapTupleHeaderGetNatts(old.t_data) < kLogColumns ||
      memcmp(reinterpret_cast<char*>(old.t_data) + old.t_data->t_hoff + kIdAt, id.data(), id.size()) != 0) {
    UnlockReleaseBuffer(buffer);
    return;
  }
  const int columns = HeapTupleHeaderGetNatts(old.t_data);
  TupleDesc desc = days::FirstColumns(RelationGetDescr(day_table), columns);
  auto* values = static_cast<Datum*>(palloc(columns * sizeof(Datum)));
  auto* nulls = static_cast<bool*>(palloc(columns * sizeof(bool)));
  heap_deform_tuple(&old, desc, values, nulls);
  List* toasted = NIL;
  for (int column : {kPayload, kHeaders}) {
    auto* value = reinterpret_cast<struct varlena*>(DatumGetPointer(values[column]));
    if (!nulls[column] && VARATT_IS_EXTERNAL_ONDISK(value)) {
      char* pointer = static_cast<char*>(palloc(VARSIZE_EXTERNAL(value)));
      memcpy(pointer, value, VARSIZE_EXTERNAL(value));
      toasted = lappend(toasted, pointer);
    }
  }
  // Whatever is not NULL stays so, and nothing gets longer: the row fits where it was, with the same null bitmap.
  values[kPayload] = PointerGetDatum(cstring_to_text(""));
  values[kContentType] = PointerGetDatum(cstring_to_text(""));
  values[kHeaders] = DirectFunctionCall1(jsonb_in, CStringGetDatum("{}"));
  HeapTuple fresh = heap_form_tuple(desc, values, nulls);
  const uint32 head = old.t_data->t_hoff;
  if (fresh->t_data->t_hoff != head || fresh->t_len > old.t_len) {
    ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                    errmsg("an erased row of \"%s\" does not fit into its place", RelationGetRelationName(day_table))));
  }
  char* data = reinterpret_cast<char*>(old.t_data);
  memcpy(data + head, reinterpret_cast<char*>(fresh->t_data) + head, fresh->t_len - head);
  memset(data + fresh->t_len, 0, old.t_len - fresh->t_len);
  old.t_data->t_infomask = static_cast<uint16>((old.t_data->t_infomask & ~HEAP_HASEXTERNAL) |
                                               (fresh->t_data->t_infomask & HEAP_HASEXTERNAL));
  WriteUnread(day_table, buffer, page);
  *blanked = true;
  UnlockReleaseBuffer(buffer);
  ListCell* cell;
  foreach (cell, toasted) {
    BlankToast(static_cast<struct varlena*>(lfirst(cell)));
  }
}

}  // namespace outbox::log
