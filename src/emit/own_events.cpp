#include "emit/own_events.h"

#include "days/day_table.h"
#include "days/log_table.h"
#include "emit/emitters.h"
#include "pg/transaction_end.h"

extern "C" {
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
}

namespace outbox::emit {

using enum days::LogColumn;

namespace {

// Where each row of this transaction is, from the first search for an id on. Rows of subtransactions that are rolled
// back stay in it until a search finds them: a location counts only if its row exists, is of this transaction and has
// the id. (After a vacuum another row may be there.)
struct OwnRow {
  int table;
  ItemPointerData tid;
  OwnRow* next;  // another event with the same id: clients choose it
};

struct OfId {
  pg_uuid_t id;  // the hash table takes the key from here
  OwnRow* first;
};

constexpr int kMaxTables = 8;
// Some 20 MB. A transaction that has emitted more reads through all its rows.
constexpr int64 kMaxOwnRows = 200'000;

struct OwnRows {
  MemoryContext context;
  HTAB* by_id;
  int64 count;
  int tables;
  Oid table[kMaxTables];
  Oid file[kMaxTables];  // in another one the rows have other places: this transaction itself has rewritten the table
};

// Those of transaction `owner`, whose end frees the memory; call ForgetAnotherTransactions() before use.
OwnRows* own_rows = nullptr;
bool unknowable = false;
FullTransactionId owner = InvalidFullTransactionId;

void ForgetAnotherTransactions() {
  FullTransactionId xid = GetTopFullTransactionIdIfAny();
  if (!FullTransactionIdEquals(xid, owner)) {
    own_rows = nullptr;
    unknowable = false;
    owner = xid;
  }
}

void Drop() {
  if (own_rows != nullptr) {
    MemoryContextDelete(own_rows->context);
    own_rows = nullptr;
  }
}

void GiveUp() {
  Drop();
  unknowable = true;
}

// Returns -1 if there are too many.
int IndexOfTable(OwnRows* into, Relation table) {
  for (int i = into->tables - 1; i >= 0; i--) {
    if (into->table[i] == RelationGetRelid(table)) {
      return i;
    }
  }
  if (into->tables == kMaxTables) {
    return -1;
  }
  into->table[into->tables] = RelationGetRelid(table);
  into->file[into->tables] = table->rd_rel->relfilenode;
  return into->tables++;
}

// Returns false if it does not fit.
bool Add(OwnRows* into, Relation table, const pg_uuid_t* id, const ItemPointerData* tid) {
  int index = IndexOfTable(into, table);
  if (index < 0 || into->count == kMaxOwnRows) {
    return false;
  }
  OwnRow* own_row = static_cast<OwnRow*>(MemoryContextAlloc(into->context, sizeof(OwnRow)));
  bool found = false;
  OfId* of_id = static_cast<OfId*>(hash_search(into->by_id, id, HASH_ENTER, &found));
  *own_row = {index, *tid, found ? of_id->first : nullptr};
  of_id->first = own_row;
  into->count++;
  return true;
}

}  // namespace

int CompareIds(const void* a, const void* b) {
  return memcmp(a, b, sizeof(pg_uuid_t));
}

struct OwnScan {
  MemoryContext context;
  FullTransactionId xid;
  Oid reader;
  CommandId before;
  const pg_uuid_t* ids;  // nullptr: all
  int count;

  // While reading through all rows, one table after the other:
  int32 day;
  int32 last_day;
  bool spare;
  Relation table;
  Relation index;
  SysScanDesc rows;

  // While searching by id: the tables of `places`, and where the rows are.
  bool by_id;
  Relation tables[kMaxTables];
  BlockNumber blocks[kMaxTables];
  int found_count;
  int found_room;
  int next_found;
  struct Found {
    int table;
    ItemPointerData tid;
  } * found;
};

namespace {

OwnScan* Begin(Oid reader, CommandId before, const pg_uuid_t* ids, int count) {
  OwnScan* scan = static_cast<OwnScan*>(palloc0(sizeof(OwnScan)));
  scan->context = CurrentMemoryContext;
  scan->xid = GetTopFullTransactionIdIfAny();
  scan->reader = reader;
  scan->before = before;
  scan->ids = ids;
  scan->count = count;
  if (!FullTransactionIdIsValid(scan->xid) || !pg::EmittedDays(&scan->day, &scan->last_day)) {
    scan->day = 1;
    scan->last_day = 0;
  } else {
    scan->spare = pg::EmittedToSpare();
  }
  return scan;
}

// Returns false if that was the last.
bool OpenNextTable(OwnScan* scan) {
  while (scan->table == nullptr) {
    if (scan->day <= scan->last_day) {
      scan->table = days::OpenDayTableForReading(scan->day++);
    } else if (scan->spare) {
      scan->table = days::OpenSpareTableForReading();
      scan->spare = false;
    } else {
      return false;
    }
  }
  ScanKeyData key;
  ScanKeyInit(&key, kXid + 1, BTEqualStrategyNumber, F_XID8EQ, FullTransactionIdGetDatum(scan->xid));
  // Rows of this very transaction are there or taken back, whatever the isolation level: no snapshot decides that, and
  // none is asked. A snapshot of a serializable transaction would leave predicate locks on pages that all write to.
  // What the current statement has emitted is left out explicitly.
  scan->index = days::OpenXidIndex(scan->table);
  bool by_index = scan->index != nullptr;
  scan->rows = systable_beginscan(scan->table, by_index ? RelationGetRelid(scan->index) : InvalidOid, by_index,
                                  SnapshotSelf, 1, &key);
  return true;
}

void CloseTable(OwnScan* scan) {
  if (scan->table == nullptr) {
    return;
  }
  systable_endscan(scan->rows);
  if (scan->index != nullptr) {
    index_close(scan->index, AccessShareLock);
  }
  table_close(scan->table, NoLock);
  scan->table = nullptr;
}

pg_uuid_t* IdOf(HeapTuple row, TupleDesc desc) {
  bool isnull = false;
  return DatumGetUUIDP(heap_getattr(row, kId + 1, desc, &isnull));
}

bool IsWanted(const OwnScan* scan, HeapTuple row, TupleDesc desc) {
  return scan->ids == nullptr ||
         bsearch(IdOf(row, desc), scan->ids, scan->count, sizeof(pg_uuid_t), CompareIds) != nullptr;
}

HeapTuple NextOfAll(OwnScan* scan, TupleDesc* desc) {
  while (scan->table != nullptr || OpenNextTable(scan)) {
    *desc = RelationGetDescr(scan->table);
    HeapTuple row = nullptr;
    while (HeapTupleIsValid(row = systable_getnext(scan->rows))) {
      CHECK_FOR_INTERRUPTS();
      if (HeapTupleHeaderGetCmin(row->t_data) < scan->before && IsWanted(scan, row, *desc)) {
        return row;
      }
    }
    CloseTable(scan);
  }
  return nullptr;
}

// Finds out where all rows are. Until that is complete the memory belongs to this subtransaction, so that an error
// frees it.
void FindOwnRows() {
  MemoryContext context =
      AllocSetContextCreate(CurTransactionContext, "outbox events of the transaction", ALLOCSET_DEFAULT_SIZES);
  MemoryContext caller = MemoryContextSwitchTo(context);
  OwnRows* made = static_cast<OwnRows*>(palloc0(sizeof(OwnRows)));
  made->context = context;
  HASHCTL control = {};
  control.keysize = sizeof(pg_uuid_t);
  control.entrysize = sizeof(OfId);
  control.hcxt = context;
  made->by_id = hash_create("outbox events of the transaction", 256, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
  OwnScan* scan = Begin(InvalidOid, InvalidCommandId, nullptr, 0);
  TupleDesc desc = nullptr;
  bool fits = true;
  for (HeapTuple row = nullptr; fits && (row = NextOfAll(scan, &desc)) != nullptr;) {
    fits = Add(made, scan->table, IdOf(row, desc), &row->t_self);
  }
  EndOwnScan(scan);
  MemoryContextSwitchTo(caller);
  if (fits) {
    MemoryContextSetParent(context, TopTransactionContext);
    own_rows = made;
  } else {
    MemoryContextDelete(context);
    GiveUp();
  }
}

// Returns false if the rows are not where they were.
bool OpenTables(OwnScan* scan) {
  bool same = true;
  for (int i = 0; i < own_rows->tables; i++) {
    Relation table = try_table_open(own_rows->table[i], AccessShareLock);
    scan->tables[i] = table;
    // Rows that were rolled back may have been behind the table's present end.
    scan->blocks[i] = table == nullptr ? 0 : RelationGetNumberOfBlocks(table);
    same = same && (table == nullptr || table->rd_rel->relfilenode == own_rows->file[i]);
  }
  return same;
}

void CloseTables(OwnScan* scan) {
  for (Relation& table : scan->tables) {
    if (table != nullptr) {
      table_close(table, NoLock);
      table = nullptr;
    }
  }
}

enum class Fate {
  kThere,    // a row of this transaction, in `copy` if there is one
  kLater,    // a row of this transaction, but not for this scan
  kTouched,  // this transaction has updated or deleted it: it is elsewhere, or may come back
  kGone,     // it will not come back
};

Fate Fetch(const OwnScan* scan, int index, const ItemPointerData* tid, const pg_uuid_t* id, HeapTuple* copy) {
  Relation table = scan->tables[index];
  if (ItemPointerGetBlockNumber(tid) >= scan->blocks[index]) {
    return Fate::kGone;
  }
  HeapTupleData row = {};
  row.t_self = *tid;
  Buffer buffer = InvalidBuffer;
  bool there = heap_fetch(table, SnapshotSelf, &row, &buffer, true);
  if (row.t_data == nullptr) {
    return Fate::kGone;
  }
  TupleDesc desc = RelationGetDescr(table);
  bool isnull = false;
  uint64 xid = DatumGetUInt64(heap_getattr(&row, kXid + 1, desc, &isnull));
  Fate fate = Fate::kGone;
  if (xid != U64FromFullTransactionId(scan->xid) || (id != nullptr && CompareIds(IdOf(&row, desc), id) != 0)) {
    fate = Fate::kGone;
  } else if (!there) {
    fate = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(row.t_data)) ? Fate::kTouched : Fate::kGone;
  } else if (HeapTupleHeaderGetCmin(row.t_data) >= scan->before) {
    fate = Fate::kLater;
  } else {
    fate = Fate::kThere;
    if (copy != nullptr) {
      *copy = heap_copytuple(&row);
    }
  }
  ReleaseBuffer(buffer);
  return fate;
}

void Keep(OwnScan* scan, const OwnRow* own_row) {
  if (scan->found_count == scan->found_room) {
    scan->found_room = Max(4, 2 * scan->found_room);
    size_t size = scan->found_room * sizeof(OwnScan::Found);
    scan->found = static_cast<OwnScan::Found*>(scan->found == nullptr ? palloc(size) : repalloc(scan->found, size));
  }
  scan->found[scan->found_count++] = {own_row->table, own_row->tid};
}

// Forgets locations without a row. Returns false if a row may be missed there.
bool FindOfId(OwnScan* scan, const pg_uuid_t* id) {
  OfId* of_id = static_cast<OfId*>(hash_search(own_rows->by_id, id, HASH_FIND, nullptr));
  if (of_id == nullptr) {
    return true;
  }
  for (OwnRow** at = &of_id->first; *at != nullptr;) {
    OwnRow* own_row = *at;
    switch (Fetch(scan, own_row->table, &own_row->tid, id, nullptr)) {
      case Fate::kTouched:
        return false;
      case Fate::kGone:
        *at = own_row->next;
        pfree(own_row);
        own_rows->count--;
        continue;
      case Fate::kThere:
        Keep(scan, own_row);
        break;
      case Fate::kLater:
        break;
    }
    at = &own_row->next;
  }
  if (of_id->first == nullptr) {
    (void)hash_search(own_rows->by_id, id, HASH_REMOVE, nullptr);
  }
  return true;
}

int CompareFound(const void* a, const void* b) {
  const OwnScan::Found* left = static_cast<const OwnScan::Found*>(a);
  const OwnScan::Found* right = static_cast<const OwnScan::Found*>(b);
  return left->table != right->table
             ? left->table - right->table
             : ItemPointerCompare(const_cast<ItemPointer>(&left->tid), const_cast<ItemPointer>(&right->tid));
}

// The location of a row that was rolled back may now have another one with the same id: drops the repetition.
void DropRepeats(OwnScan* scan) {
  if (scan->found_count < 2) {
    return;
  }
  qsort(scan->found, scan->found_count, sizeof(OwnScan::Found), CompareFound);
  int kept = 1;
  for (int i = 1; i < scan->found_count; i++) {
    if (CompareFound(&scan->found[kept - 1], &scan->found[i]) != 0) {
      scan->found[kept++] = scan->found[i];
    }
  }
  scan->found_count = kept;
}

// Returns false if all rows have to be read through.
bool FindById(OwnScan* scan) {
  if (!unknowable && own_rows != nullptr && !OpenTables(scan)) {
    CloseTables(scan);
    Drop();
  }
  if (!unknowable && own_rows == nullptr) {
    FindOwnRows();
    if (!unknowable) {
      (void)OpenTables(scan);
    }
  }
  if (unknowable) {
    return false;
  }
  for (int i = 0; i < scan->count; i++) {
    CHECK_FOR_INTERRUPTS();
    if (!FindOfId(scan, &scan->ids[i])) {
      CloseTables(scan);
      scan->found_count = 0;
      GiveUp();
      return false;
    }
  }
  DropRepeats(scan);
  return true;
}

HeapTuple NextById(OwnScan* scan, TupleDesc* desc) {
  while (scan->next_found < scan->found_count) {
    CHECK_FOR_INTERRUPTS();
    const OwnScan::Found* found = &scan->found[scan->next_found++];
    HeapTuple row = nullptr;
    if (Fetch(scan, found->table, &found->tid, nullptr, &row) == Fate::kThere) {
      *desc = RelationGetDescr(scan->tables[found->table]);
      return row;
    }
  }
  return nullptr;
}

// Scans keep what they allocate on their way.
HeapTuple NextOfAllInContext(OwnScan* scan, TupleDesc* desc) {
  MemoryContext caller = MemoryContextSwitchTo(scan->context);
  HeapTuple row = NextOfAll(scan, desc);
  MemoryContextSwitchTo(caller);
  return row;
}

int64 CreatedAt(HeapTuple row, TupleDesc desc) {
  bool isnull = false;
  return DatumGetTimestampTz(heap_getattr(row, kCreatedAt + 1, desc, &isnull)) + kPgEpochMicros;
}

}  // namespace

OwnScan* BeginOwnScan(Oid reader, CommandId before) {
  return Begin(reader, before, nullptr, 0);
}

OwnScan* BeginOwnScan(Oid reader, CommandId before, const pg_uuid_t* ids, int count) {
  ForgetAnotherTransactions();
  OwnScan* scan = Begin(reader, before, ids, count);
  scan->by_id = count == 0 || scan->day > scan->last_day || FindById(scan);
  return scan;
}

HeapTuple NextOwn(OwnScan* scan, TupleDesc* desc) {
  for (;;) {
    HeapTuple row = scan->by_id ? NextById(scan, desc) : NextOfAllInContext(scan, desc);
    if (row == nullptr || MaySee(scan->reader, CreatedAt(row, *desc))) {
      return row;
    }
  }
}

void EndOwnScan(OwnScan* scan) {
  CloseTable(scan);
  CloseTables(scan);
  pfree(scan);
}

void NoteOwnEvent(Relation table, const pg_uuid_t* id, const ItemPointerData* own_row) {
  if (own_rows == nullptr) {
    return;
  }
  ForgetAnotherTransactions();
  if (own_rows != nullptr && !Add(own_rows, table, id, own_row)) {
    GiveUp();
  }
}

}  // namespace outbox::emit
