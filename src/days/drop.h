// How a day table is dropped, and the spare table emptied [P]. Locks are taken by single conditional attempts, parent
// before log table: a queued AccessExclusiveLock on the parent would stop every session that reads through it.
#pragma once

#include <cstdint>
#include <exception>
#include <vector>

#include "days/day_tables.h"
#include "pg/transaction.h"

namespace outbox::days {

// What one call to a Drop function did.
struct DropReport {
  int dropped = 0;
  int waiting = 0;  // expired, but not finished by all lanes, or locked; tried again next time
};

// Returns whether it got both locks; one alone is useless and goes with the transaction. Plain.
bool LockForDrop(DayTableKind kind, Oid table);

// Runs `drop` for every table of the kind that ended at or before `end`, each in a transaction of its own; true from it
// means dropped. An error leaves the table for the next time, like a lock, and is thrown when the others are done.
template <typename Drop>
DropReport DropEach(DayTableKind kind, int64_t end, Drop drop) {
  std::vector<DayTable> tables;
  MemoryContext context = CurrentMemoryContext;
  pg::InTransaction(context, [&] { ReadDayTables(kind, &tables); });
  DropReport report;
  std::exception_ptr first;
  for (const DayTable& table : tables) {
    if (table.day == kUnknownDay || DayStartMicros(table.day) + kDayMicros > end) {
      continue;
    }
    bool dropped = false;
    try {
      pg::InTransaction(context, [&] { dropped = FindDayTable(kind, table.day) == table.oid && drop(table); });
    } catch (const pg::PgError&) {
      first = first ? first : std::current_exception();
      dropped = false;
    }
    (dropped ? report.dropped : report.waiting)++;
  }
  if (first) {
    std::rethrow_exception(first);
  }
  return report;
}

// Whether anything was ever written to the spare table since it was empty. Plain, inside a transaction.
bool SpareTableIsUsed();
bool IsUsed(Oid table);  // InvalidOid: false

// Empties a table as TRUNCATE does, which would fire triggers and travel through publications FOR ALL TABLES. The
// caller holds AccessExclusiveLock on it. Plain.
void GiveNewStorage(Oid table);

// Empties all tables of the kind so; waits for its locks. Plain.
void EmptyDayTables(DayTableKind kind);
// Its locks alone, for who reads the tables first; returns the tables.
List* LockDayTablesToEmpty(DayTableKind kind);

}  // namespace outbox::days
