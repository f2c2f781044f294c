// Which table an id's mark lies in [P]. A function of the id alone, so that the same id always meets the same unique
// index, whoever asks and whenever. Plain.
//
// Dated ids are of version 7 with a time between 2020 and 2120: day tables, by the UTC day of that time, in a ring. All
// others say nothing of their age: the two undated tables, both of them.
#pragma once

#include "pg/prelude.h"

namespace outbox::inbox {

constexpr int kDayTables = 32;
constexpr int kUndatedA = kDayTables;
constexpr int kUndatedB = kDayTables + 1;
constexpr int kTables = kDayTables + 2;

// outbox.inbox_retention goes up to this: the days of the ring behind it are for producers whose clock is ahead.
constexpr int kLongestRetentionDays = 28;

// The Unix time of a dated id in microseconds (to the millisecond); false: it is undated.
bool TimeOfId(const pg_uuid_t* id, int64* micros);
// The least dated id of that time or later; above all of them where there is none.
pg_uuid_t LeastIdOf(int64 micros);

inline int TableOfDay(int32 day) {
  return day % kDayTables;
}

// "inbox_day_05", "inbox_undated_a"; `name` has room for NAMEDATALEN bytes.
void TableName(int table, char* name);
// Raises 3F000 where the extension is not there.
Oid TableOid(int table);
Oid InboxTable(const char* name);

}  // namespace outbox::inbox
