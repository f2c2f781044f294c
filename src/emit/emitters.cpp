#include "emit/emitters.h"

#include "pg/rights.h"

namespace outbox::emit {

namespace {

struct Change {
  int64 from;
  Oid role;
};

// Some 3 MB. What is emitted after more changes, each way counts, is shown to nobody but the owner and superusers.
constexpr int kMostChanges = 200'000;

// Those of transaction `owner`, whose end frees the changes. What was rolled back with a savepoint stays in: nobody
// asks for its readings.
struct {
  FullTransactionId owner;
  Oid first;   // until the first change
  Oid newest;  // since the last
  int64 last_reading;
  Change* changes;  // nullptr: none
  int count;
  int room;
  int64 unknown_from;
} emitters;

bool IsOfThisTransaction() {
  return FullTransactionIdEquals(emitters.owner, GetTopFullTransactionIdIfAny());
}

void AddChange(int64 from, Oid role) {
  if (emitters.count == kMostChanges) {
    emitters.unknown_from = Min(emitters.unknown_from, from);
    return;
  }
  if (emitters.changes == nullptr) {
    constexpr int kFirstRoom = 16;
    emitters.changes =
        static_cast<Change*>(MemoryContextAlloc(TopTransactionContext, kFirstRoom * sizeof(*emitters.changes)));
    emitters.room = kFirstRoom;
  } else if (emitters.count == emitters.room) {
    const int room = 2 * emitters.room;
    emitters.changes = static_cast<Change*>(repalloc(emitters.changes, room * sizeof(*emitters.changes)));
    emitters.room = room;
  }
  emitters.changes[emitters.count++] = {from, role};
  emitters.newest = role;
}

// At which of the changes a reading was taken; -1: before the first.
int ChangeAt(int64 reading) {
  int low = 0;
  int high = emitters.count;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (emitters.changes[middle].from <= reading) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - 1;
}

}  // namespace

void NoteEmitter(Oid role, int64 reading) {
  if (!IsOfThisTransaction()) {
    emitters = {};
    emitters.owner = GetTopFullTransactionIdIfAny();
    emitters.first = role;
    emitters.newest = role;
    emitters.unknown_from = PG_INT64_MAX;
  } else if (role != emitters.newest) {
    AddChange(reading, role);
  }
  if (reading <= emitters.last_reading && emitters.count > 0) {
    // A clock that goes back within a transaction was put back by hand.
    emitters.unknown_from = PG_INT64_MIN;
  }
  emitters.last_reading = Max(emitters.last_reading, reading);
}

bool MaySee(Oid role, int64 reading) {
  Oid emitter = InvalidOid;
  if (IsOfThisTransaction() && reading < emitters.unknown_from) {
    const int change = ChangeAt(reading);
    emitter = change < 0 ? emitters.first : emitters.changes[change].role;
  }
  return (OidIsValid(emitter) && pg::HasRightsOf(role, emitter)) || pg::HasRightsOfOwner(role);
}

}  // namespace outbox::emit
