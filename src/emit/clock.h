// The hybrid clock [P]: Unix microseconds, one for all sessions of the server, never back, never the same twice.
// Plain code.
//
// It is the wall clock where that moves ahead, and its own last reading plus one where it does not (Lamport's logical
// clock riding on a physical one: Kulkarni et al., "Logical Physical Clocks", 2014). A ceiling is stored in the
// sequence outbox.clock_ceiling, which is WAL-logged; no reading above it is ever handed out, and after a server start
// the clock begins above it. So a restart, a promotion or a clock step turns nothing back. The keeper moves the ceiling
// ahead in time; a session that comes to it first moves it itself.
#pragma once

#include "pg/prelude.h"

namespace outbox::emit {

// Takes `count` consecutive readings (at least 1) and returns the first. Without preload the clock is this process's
// own: no order between sessions is promised then, and each session is told so once.
int64 TakeReadings(int64 count);

// How far ahead of the clock the ceiling is moved, microseconds.
inline constexpr int64 kCeilingAhead = 10 * USECS_PER_SEC;

// Stores a ceiling of this database that is above `at_least` by half of kCeilingAhead, unless a higher one is stored.
// Needs a transaction that may write; what it stores stays when that rolls back. May be called by several at once.
void AdvanceClockCeiling(int64 at_least);
// What is known of this database's ceiling is out of date: the next reading looks again. Raises nothing; for the commit
// callback.
void ForgetClockCeiling();

}  // namespace outbox::emit
