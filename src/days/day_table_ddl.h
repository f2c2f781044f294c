// How a day table is made [P]. Plain code: raises Postgres errors, owns nothing. Days are counted from 1970-01-01 UTC.
#pragma once

#include "pg/prelude.h"

namespace outbox::days {

inline constexpr int64 kDayMicros = static_cast<int64>(SECS_PER_DAY) * USECS_PER_SEC;

enum class DayTableKind : uint8 { kLog, kProgress, kTick, kOutcome, kEmitKey };

// The UTC day that a Unix time in microseconds falls into.
int32 DayOfMicros(int64 unix_micros);
// The Unix time in microseconds at which the day begins.
int64 DayStartMicros(int32 day);

// "log", "progress", "tick", "outcome", "emit_key".
const char* DayTableParentName(DayTableKind kind);
// "log_20261121"; `name` has room for NAMEDATALEN bytes.
void DayTableName(DayTableKind kind, int32 day, char* name);
// The reverse of DayTableName; returns false for any other name.
bool DayOfTableName(DayTableKind kind, const char* name, int32* day);

// InvalidOid when the extension is not there.
Oid DayTableParent(DayTableKind kind);
// InvalidOid when the day has no table. Takes no lock.
Oid FindDayTable(DayTableKind kind, int32 day);

// outbox_internal.log_spare, which takes the events of a day that has no table; InvalidOid when the extension is not
// there. It is a part of the log that is no partition of it, so it is always there to be written to, without any DDL.
Oid SpareTable();

// outbox_internal.emit_key_spare, which takes the keys of a day that has no table, as above.
Oid SpareKeyTable();

// Makes the day table in the current transaction, owned by the parent's owner, unless it is there; true when it was
// made. Takes ShareUpdateExclusiveLock on the parent first (creators queue there; emitters and readers are not held
// up) and keeps it until the transaction ends, so use a short transaction of its own that drops nothing. No event
// trigger fires, so none can refuse. Works without SPI and without an active snapshot.
// Another relation that has the name is renamed, and the server log says so; SQLSTATE 55P03 while a session uses it.
// 3F000 when the extension is not there.
bool CreateDayTable(DayTableKind kind, int32 day);
// The same for the days of two times, Unix microseconds, in the caller's own transaction, which then writes to them.
void EnsureDayTables(DayTableKind kind, int64 first, int64 last);

// Drops it in the current transaction; no event trigger fires. The caller holds AccessExclusiveLock on the parent, then
// on the table, and creates nothing in the same transaction.
void DropDayTable(DayTableKind kind, int32 day);
// True while DropDayTable runs: the guard that protects the log from manual DDL lets it through.
bool DroppingDayTable();

}  // namespace outbox::days
