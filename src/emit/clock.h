// The hybrid clock [P]: Unix microseconds, one for all sessions of the server, never back, never the same twice.
// Plain code.
//
// It is the wall clock where that moves ahead, and its own last reading plus one where it does not (Lamport's logical
// clock riding on a physical one: Kulkarni et al., "Logical Physical Clocks", 2014). A ceiling is stored in the
// sequence outbox.clock_ceiling, WAL-logged and kept some seconds ahead by the keeper; the first emit of a database
// after a server start raises the clock above it, so that a restart, a promotion or a clock step turns nothing back.
#pragma once

#include "pg/prelude.h"

namespace outbox::emit {

// Takes `count` consecutive readings (at least 1) and returns the first. Without preload the clock is this process's
// own: no order between sessions is promised then, and each session is told so once.
int64 TakeReadings(int64 count);

// The stored ceiling of this database in Unix microseconds, 0 if none was stored. Needs a transaction.
int64 StoredClockCeiling();
// Makes every later reading be above `micros`. No effect without preload.
void RaiseSharedClock(int64 micros);

}  // namespace outbox::emit
