#include "metrics/emitted.h"

#include "base/monotonic.h"
#include "pg/server_versions.h"

extern "C" {
#include "access/transam.h"
#include "storage/procarray.h"
}

namespace outbox::metrics {

namespace {

DatabaseFigures* my_database = nullptr;

// What the current transaction has emitted.
struct {
  uint64 xid;
  uint64 events;
  uint64 bytes;
} mine;

// Subtransactions that have emitted, the innermost last: what had been counted before each. In TopTransactionContext.
struct Level {
  int level;
  uint64 events;
  uint64 bytes;
};
Level* levels = nullptr;
int level_count = 0;
int level_room = 0;

void EnterLevel(int level) {
  if (level_count > 0 && levels[level_count - 1].level >= level) {
    return;
  }
  if (level_count == level_room) {
    const int room = Max(8, 2 * level_room);
    const Size size = static_cast<Size>(room) * sizeof(Level);
    levels = static_cast<Level*>(levels == nullptr ? MemoryContextAlloc(TopTransactionContext, size)
                                                   : repalloc(levels, size));
    level_room = room;
  }
  levels[level_count++] = {level, mine.events, mine.bytes};
}

void Forget() {
  mine = {};
  levels = nullptr;
  level_count = level_room = 0;
}

EmittedStripe* MyStripe(DatabaseFigures* database) {
  return &database->emitted[pg::MyProcIndex() % DatabaseFigures::kStripes];
}

void Add(DatabaseFigures* database, uint64 events, uint64 bytes) {
  EmittedStripe* stripe = MyStripe(database);
  Count(&stripe->transactions);
  Count(&stripe->events, events);
  Count(&stripe->bytes, bytes);
}

// Finds the figures of this database, once.
bool HaveDatabase() {
  if (Figures() == nullptr) {
    return false;
  }
  if (my_database == nullptr || my_database->database.load(std::memory_order_relaxed) != MyDatabaseId) {
    my_database = FindDatabase(MyDatabaseId, true);
  }
  return my_database != nullptr;
}

// There is a place: SettlePrepared() has run, and one transaction has one. (Unless pg_xact cannot be read: then what
// has no place is not counted.)
void NotePrepared() {
  for (int i = 0; i < Figures()->max_prepared; i++) {
    PreparedEmit* slot = &PreparedSlots()[i];
    uint64 free = 0;
    if (slot->xid.load() == 0 && slot->xid.compare_exchange_strong(free, UINT64_MAX)) {
      slot->database = MyDatabaseId;
      slot->events = mine.events;
      slot->bytes = mine.bytes;
      slot->xid.store(mine.xid);
      return;
    }
  }
}

enum class Fate {
  kUnfinished,
  kCommitted,
  kRolledBack,
  kForgotten,   // the server does not know any more
  kUnreadable,  // nor can it tell now
};

// Whether pg_xact has it still; under XactTruncationLock, so that it stays there. Compared in 64 bits: a slot may be of
// before a wraparound. One that is yet to come was remembered before pg_resetwal.
bool HasFate(uint64 xid) {
  const uint64 next = U64FromFullTransactionId(ReadNextFullTransactionId());
  const uint64 oldest = next - (static_cast<TransactionId>(next) - pg::OldestXidInPgXact());
  return xid >= oldest && xid < next;
}

// As pg_xact_status() asks, since asking for one that pg_xact has no more raises. Does not raise: of a file that cannot
// be read neither those who prepare a transaction nor the keeper are to know because of a figure.
Fate FateOf(uint64 xid) {
  const MemoryContext context = CurrentMemoryContext;
  const uint32 held_off = InterruptHoldoffCount;
  volatile Fate fate = Fate::kUnreadable;
  PG_TRY();
  {
    const TransactionId short_xid = XidFromFullTransactionId(FullTransactionIdFromU64(xid));
    LWLockAcquire(XactTruncationLock, LW_SHARED);
    if (!HasFate(xid)) {
      fate = Fate::kForgotten;
    } else if (TransactionIdIsInProgress(short_xid)) {
      fate = Fate::kUnfinished;
    } else {
      fate = TransactionIdDidCommit(short_xid) ? Fate::kCommitted : Fate::kRolledBack;
    }
    LWLockRelease(XactTruncationLock);
  }
  PG_CATCH();
  {
    // All that a lookup has taken is light-weight locks, and its callers have none.
    LWLockReleaseAll();
    InterruptHoldoffCount = held_off;
    MemoryContextSwitchTo(context);
    FlushErrorState();
  }
  PG_END_TRY();
  return fate;
}

}  // namespace

// Nothing may raise in COMMIT and ABORT: see pg/transaction_end.
void CountAtTransactionEnd(XactEvent event) {
  switch (event) {
    case XACT_EVENT_PRE_PREPARE:
      if (mine.events > 0) {
        SettlePrepared();
      }
      return;
    case XACT_EVENT_COMMIT:
      if (mine.events > 0) {
        Figures()->commits.Note(mine.xid, MonotonicMicros());
        Add(my_database, mine.events, mine.bytes);
      }
      break;
    case XACT_EVENT_PREPARE:
      if (mine.events > 0) {
        NotePrepared();
      }
      break;
    case XACT_EVENT_ABORT:
      break;
    default:
      return;
  }
  if (mine.xid != 0) {
    Forget();
  }
}

void CountAtSavepointEnd(SubXactEvent event) {
  if (level_count == 0 || (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)) {
    return;
  }
  const int level = GetCurrentTransactionNestLevel();
  if (levels[level_count - 1].level < level) {
    return;
  }
  Level* top = &levels[level_count - 1];
  if (event == SUBXACT_EVENT_ABORT_SUB) {
    mine.events = top->events;
    mine.bytes = top->bytes;
    level_count--;
  } else if (level - 1 == 1 || (level_count > 1 && levels[level_count - 2].level == level - 1)) {
    level_count--;
  } else {
    top->level = level - 1;
  }
}

void NoteEmitted(uint64 events, uint64 bytes) {
  if (!HaveDatabase()) {
    return;
  }
  const int level = GetCurrentTransactionNestLevel();
  if (level > 1) {
    EnterLevel(level);
  }
  mine.xid = U64FromFullTransactionId(GetTopFullTransactionId());
  mine.events += events;
  mine.bytes += bytes;
}

void NoteRepeated() {
  if (HaveDatabase()) {
    Count(&MyStripe(my_database)->repeated);
  }
}

void SettlePrepared() {
  if (Figures() == nullptr) {
    return;
  }
  for (int i = 0; i < Figures()->max_prepared; i++) {
    PreparedEmit* slot = &PreparedSlots()[i];
    uint64 xid = slot->xid.load();
    if (xid == 0 || xid == UINT64_MAX || xid == mine.xid) {
      continue;
    }
    const Fate fate = FateOf(xid);
    if (fate == Fate::kUnfinished || fate == Fate::kUnreadable) {
      continue;
    }
    const Oid database = slot->database;
    const uint64 events = slot->events;
    const uint64 bytes = slot->bytes;
    // Of what is forgotten nothing is counted, as if it had been rolled back: a figure is rather too low than made up.
    if (!slot->xid.compare_exchange_strong(xid, 0) || fate != Fate::kCommitted) {
      continue;  // another process has, or there is nothing to count
    }
    if (DatabaseFigures* figures = FindDatabase(database, false); figures != nullptr) {
      Add(figures, events, bytes);
    }
  }
}

}  // namespace outbox::metrics
