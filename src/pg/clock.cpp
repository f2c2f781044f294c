#include "pg/clock.h"

#include "base/fault_point.h"
#include "pg/entry.h"
#include "pg/owner.h"
#include "pg/schemas.h"
#include "pg/server_versions.h"
#include "pg/shared.h"
#include "pg/transaction_end.h"
#include "pg/wall.h"

extern "C" {
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/sequence.h"
#include "storage/lock.h"
#include "utils/fmgrprotos.h"
}

namespace outbox::pg {

namespace {

bool warned = false;

constexpr int64 kCeilingAhead = 10 * USECS_PER_SEC;  // of the wall clock, at most
constexpr int64 kLeastAhead = USECS_PER_SEC / 10;    // of the clock, which then ticks by microseconds

// Days are known by eight digits, and what is dropped with age is reckoned from readings: beyond the year 9999 no table
// could be made, and sums would overflow. A ceiling so late was put there by hand. It is taken for one that is late
// enough to be told, with room to tick.
constexpr int64 kLastCeiling = 253'370'764'800 * USECS_PER_SEC;     // 9999-01-01
constexpr int64 kInsteadOfLater = 221'845'392'000 * USECS_PER_SEC;  // 9000-01-01

// What is known of the ceiling in shared memory, besides the ceiling itself.
constexpr uint64 kNeverRead = 0;
constexpr uint64 kReadAgain = 1;

void WarnNotPreloaded() {
  if (warned) {
    return;
  }
  warned = true;
  ereport(WARNING,
          (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
           errmsg("outbox is not preloaded: events are stored, but nothing publishes them"),
           errdetail("No background worker of outbox runs in this server."),
           errhint("An administrator adds outbox to shared_preload_libraries in postgresql.conf, beside what is "
                   "there, and restarts the server: shared_preload_libraries = 'outbox' where nothing is.")));
}

Oid CeilingSequence() {
  return FindOurRelation("clock_ceiling");
}

// A sequence is a table of one row. Read as such it needs no privilege of the caller, no SPI and no snapshot.
int64 StoredCeiling(Oid sequence, Oid* owner) {
  Relation relation = relation_open(sequence, AccessShareLock);
  *owner = relation->rd_rel->relowner;
  TableScanDesc scan = BeginScan(relation, SnapshotAny);
  HeapTuple tuple = heap_getnext(scan, ForwardScanDirection);
  int64 ceiling = 0;
  if (HeapTupleIsValid(tuple)) {
    Form_pg_sequence_data data = reinterpret_cast<Form_pg_sequence_data>(GETSTRUCT(tuple));
    ceiling = data->is_called ? data->last_value : 0;
  }
  table_endscan(scan);
  relation_close(relation, AccessShareLock);
  return ceiling > kLastCeiling ? kInsteadOfLater : ceiling;
}

// setval() overwrites what is stored: two processes that move the ceiling at once must take turns, or it could be moved
// back. They do not use the sequence's own lock, which a prepared transaction may hold for days.
void LockCeiling(Oid sequence, LOCKTAG* tag) {
  SET_LOCKTAG_OBJECT(*tag, MyDatabaseId, RelationRelationId, sequence, 1);
  LockAcquire(tag, ExclusiveLock, false, false);
}

void StoreCeiling(Oid sequence, Oid owner, int64 ceiling) {
  AsOwner(owner, {},
          [sequence, ceiling] { DirectFunctionCall2(setval_oid, ObjectIdGetDatum(sequence), Int64GetDatum(ceiling)); });
}

// Without a place in shared memory the clock is where the ceiling is. 0: the database has a place by now. Whoever makes
// it takes turns with this by the lock, and begins above what was handed out here.
int64 TakeStored(int64 count) {
  Oid sequence = CeilingSequence();
  if (!OidIsValid(sequence)) {
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("sequence outbox_internal.clock_ceiling is missing"),
                    errhint("Restore the database from a dump, or create the extension anew.")));
  }
  LOCKTAG tag;
  LockCeiling(sequence, &tag);
  int64 first = 0;
  if (MyDatabaseSlot() == nullptr) {
    Oid owner = InvalidOid;
    first = Max(BelievedWall(), StoredCeiling(sequence, &owner) + 1);
    StoreCeiling(sequence, owner, first + count - 1);
  }
  LockRelease(&tag, ExclusiveLock, false);
  return first;
}

void RaiseClock(DatabaseSlot* slot, int64 micros) {
  uint64 last = pg_atomic_read_u64(&slot->clock);
  while (last < static_cast<uint64>(micros) &&
         !pg_atomic_compare_exchange_u64(&slot->clock, &last, static_cast<uint64>(micros))) {
  }
}

// How far above a reading the ceiling should be.
int64 Room(int64 reading) {
  int64 room = BelievedWall() + kCeilingAhead - reading;
  return Min(Max(room, kLeastAhead), kCeilingAhead);
}

// Stores a ceiling of this database that leaves room above `at_least`, unless there is one that is not below that. The
// first time since the server started the clock is raised to what is stored, before a ceiling is published: what lies
// below may have been handed out. `at_least` is a reading after `resets` resets: after one more it is void, and nothing
// is stored. Needs a transaction that may write; what it stores stays when that rolls back. May be called by several
// processes at once.
void AdvanceCeiling(DatabaseSlot* slot, int64 at_least, uint64 resets) {
  Oid sequence = CeilingSequence();
  if (!OidIsValid(sequence)) {
    return;
  }
  LOCKTAG tag;
  LockCeiling(sequence, &tag);  // a reset has held it
  if (ClockResets() != resets) {
    at_least = 0;
  }
  Oid owner = InvalidOid;
  int64 stored = StoredCeiling(sequence, &owner);
  if (pg_atomic_read_u64(&slot->clock_ceiling) == kNeverRead) {
    RaiseClock(slot, stored);
    pg_atomic_write_u64(&slot->clock_at_start, static_cast<uint64>(stored));
  }
  bool lower = pg_atomic_read_u32(&slot->ceiling_falls) != 0;
  if (at_least > 0 && (stored < at_least || lower)) {
    stored = at_least + Room(at_least);
    OUTBOX_FAULT_POINT("ceiling.before");
    StoreCeiling(sequence, owner, stored);
    if (lower) {
      pg_atomic_write_u32(&slot->ceiling_falls, 0);
    }
  }
  pg_atomic_write_u64(&slot->clock_ceiling, lower && at_least <= 0 ? kReadAgain : static_cast<uint64>(stored));
  LockRelease(&tag, ExclusiveLock, false);
}

// Whether this process holds the clock.
bool holds = false;
bool reads_through = false;

bool MayPassHold(DatabaseSlot* slot, uint64 reading) {
  int32 first = 0;
  int32 last = 0;
  return reading <= pg_atomic_read_u64(&slot->held_ceiling) && (reads_through || EmittedDays(&first, &last));
}

void LetGo() {
  if (!holds) {
    return;  // any transaction of any database comes here, and one without outbox takes no slot
  }
  if (DatabaseSlot* slot = MyDatabaseSlot(); slot != nullptr) {
    pg_atomic_write_u64(&slot->held_ceiling, 0);
  }
  holds = false;
}

// Whether the current transaction resets the clock when it commits.
bool reset_at_commit = false;
int64 reset_to = 0;

}  // namespace

// Called when the transaction has become visible and still has its locks: a session that waits for the clock goes on
// after them. Neither raises nor allocates.
void ClockAtTransactionEnd(XactEvent event) {
  if (event == XACT_EVENT_ABORT || event == XACT_EVENT_COMMIT) {
    LetGo();
  }
  if (!reset_at_commit) {
    return;
  }
  DatabaseSlot* slot = MyDatabaseSlot();
  switch (event) {
    case XACT_EVENT_PRE_COMMIT:
    case XACT_EVENT_PRE_PREPARE: {
      int32 first = 0;
      int32 last = 0;
      if (event == XACT_EVENT_PRE_PREPARE || EmittedDays(&first, &last)) {
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("cannot emit, or prepare, in a transaction that puts the clock back"),
                        errdetail("What it emitted would be later than all that is emitted after it."),
                        errhint("SELECT outbox.reset_clock() in a transaction of its own.")));
      }
      return;
    }
    case XACT_EVENT_COMMIT:
      if (slot != nullptr) {
        pg_atomic_fetch_add_u64(&slot->clock_resets, 1);  // a full barrier: known before any lower reading
        pg_atomic_write_u32(&slot->ceiling_falls, 1);
        pg_atomic_write_u64(&slot->clock_ceiling, kReadAgain);
        pg_memory_barrier();
        pg_atomic_write_u64(&slot->clock, static_cast<uint64>(reset_to));
      }
      break;
    case XACT_EVENT_ABORT:
      break;
    default:
      return;
  }
  reset_at_commit = false;
}

void ForgetClockCeiling() {
  DatabaseSlot* slot = FindDatabaseSlot(MyDatabaseId, false);
  // Set to kReadAgain, not kNeverRead: the clock itself need not be raised again, it does not go back while the server
  // runs.
  if (slot != nullptr && pg_atomic_read_u64(&slot->clock_ceiling) != kNeverRead) {
    pg_atomic_write_u64(&slot->clock_ceiling, kReadAgain);
  }
}

int64 TakeReadings(int64 count) {
  if (Shared() == nullptr) {
    WarnNotPreloaded();
  }
  for (;;) {
    DatabaseSlot* slot = MyDatabaseSlot();
    OUTBOX_FAULT_POINT("clock.place");
    if (slot == nullptr) {
      if (int64 first = TakeStored(count); first != 0) {
        return first;
      }
      continue;
    }
    uint64 resets = pg_atomic_read_u64(&slot->clock_resets);
    if (pg_atomic_read_u64(&slot->clock_ceiling) == kNeverRead) {
      AdvanceCeiling(slot, 0, resets);
    }
    int64 now = BelievedWall();
    uint64 last = pg_atomic_read_u64(&slot->clock);
    int64 first = 0;
    do {
      first = Max(now, static_cast<int64>(last) + 1);
    } while (!pg_atomic_compare_exchange_u64(&slot->clock, &last, static_cast<uint64>(first + count - 1)));
    uint64 newest = static_cast<uint64>(first + count - 1);
    if (newest <= pg_atomic_read_u64(&slot->clock_ceiling) || MayPassHold(slot, newest)) {
      return first;
    }
    AdvanceCeiling(slot, first + count - 1, resets);
    if (ClockResets() == resets) {
      return first;
    }
    // The clock was put back while this waited for it.
  }
}

int64 LastReading() {
  DatabaseSlot* slot = MyDatabaseSlot();
  return slot == nullptr ? 0 : static_cast<int64>(pg_atomic_read_u64(&slot->clock));
}

int64 ClockNow() {
  return Max(BelievedWall(), LastReading());
}

int64 ExpiryNow() {
  int64 now = Min(RawWall(), BelievedWall());
  DatabaseSlot* slot = MyDatabaseSlot();
  if (slot != nullptr && !WallIsSettled()) {
    int64 before = static_cast<int64>(pg_atomic_read_u64(&slot->clock_at_start));
    if (before != 0) {  // else nothing was ever emitted
      now = Min(now, before + MicrosSinceStart());
    }
  }
  return now;
}

bool CeilingIsLow() {
  DatabaseSlot* slot = MyDatabaseSlot();
  if (slot == nullptr) {
    return false;
  }
  uint64 known = pg_atomic_read_u64(&slot->clock_ceiling);
  int64 clock = LastReading();
  return known == kNeverRead || (clock != 0 && static_cast<int64>(known) - clock < Room(clock) / 2);
}

void KeepCeiling() {
  DatabaseSlot* slot = MyDatabaseSlot();
  if (slot == nullptr) {
    return;
  }
  uint64 resets = ClockResets();
  int64 clock = LastReading();
  bool first = pg_atomic_read_u64(&slot->clock_ceiling) == kNeverRead;
  OUTBOX_FAULT_POINT("ceiling.keep");
  AdvanceCeiling(slot, first ? 0 : clock + Room(clock) / 2, resets);
}

void SettleCeiling() {
  DatabaseSlot* slot = MyDatabaseSlot();
  Oid sequence = CeilingSequence();
  if (slot == nullptr || !OidIsValid(sequence)) {
    return;
  }
  LOCKTAG tag;
  LockCeiling(sequence, &tag);
  Oid owner = InvalidOid;
  uint64 known = pg_atomic_read_u64(&slot->clock_ceiling);
  // What was put there by hand, or by a restore, stays.
  if (known > kReadAgain && known == static_cast<uint64>(StoredCeiling(sequence, &owner))) {
    // A session that takes a reading not seen here finds that it has to move the ceiling, and waits for the lock.
    pg_atomic_write_u64(&slot->clock_ceiling, kReadAgain);
    pg_memory_barrier();
    int64 clock = LastReading();
    if (clock != 0 && known > static_cast<uint64>(clock)) {
      StoreCeiling(sequence, owner, clock);
      known = static_cast<uint64>(clock);
    }
    pg_atomic_write_u64(&slot->clock_ceiling, known);
  }
  LockRelease(&tag, ExclusiveLock, false);
}

void HoldClock() {
  if (holds) {
    return;  // to make room below the ceiling would let others through
  }
  KeepCeiling();
  LOCKTAG tag;
  Oid sequence = CeilingSequence();
  LockCeiling(sequence, &tag);
  DatabaseSlot* slot = MyDatabaseSlot();
  if (slot == nullptr) {
    return;
  }
  Oid owner = InvalidOid;
  holds = true;
  pg_atomic_write_u64(&slot->held_ceiling, static_cast<uint64>(StoredCeiling(sequence, &owner)));
  pg_atomic_write_u64(&slot->clock_ceiling, kReadAgain);
  pg_memory_barrier();
}

void ReleaseClock() {
  LetGo();
  LOCKTAG tag;
  SET_LOCKTAG_OBJECT(tag, MyDatabaseId, RelationRelationId, CeilingSequence(), 1);
  LockRelease(&tag, ExclusiveLock, false);
}

void ResetClockAtCommit(int64 to) {
  reset_at_commit = true;
  reset_to = to;
}

void ReadThroughHold() {
  reads_through = true;
}

uint64 ClockResets() {
  DatabaseSlot* slot = MyDatabaseSlot();
  return slot == nullptr ? 0 : pg_atomic_read_u64(&slot->clock_resets);
}

}  // namespace outbox::pg

OUTBOX_FUNCTION(outbox_preloaded) {
  PG_RETURN_BOOL(outbox::pg::Shared() != nullptr);
}
