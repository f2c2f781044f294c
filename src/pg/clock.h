// The hybrid clock [P]: Unix microseconds, one for all sessions of a database, never back, never the same twice.
// Plain code.
//
// It is the wall clock (pg/wall.h: as far as that is believed) where that moves ahead, and its own last reading plus
// one where it does not (Lamport's logical clock riding on a physical one: Kulkarni et al., "Logical Physical Clocks",
// 2014). A ceiling is stored in the sequence outbox_internal.clock_ceiling, which is WAL-logged; no reading above it is
// ever handed out, and after a server start the clock begins above it. So a restart, a promotion or a clock step turns
// nothing back. The keeper moves the ceiling ahead in time; a session that comes to it first moves it itself.
//
// The ceiling is ahead of the wall clock by ten seconds at most, and where the clock itself is, by a tenth of a second
// ahead of that: a server that crashes again and again is not carried into the future. One that stops in good order
// leaves the ceiling where the clock is.
#pragma once

#include "pg/prelude.h"

namespace outbox::pg {

// Takes `count` consecutive readings (at least 1) and returns the first. Without preload, and while all places for
// databases are taken, the clock is in that sequence alone, which is slower; without preload each session is told once
// that nothing is published.
int64 TakeReadings(int64 count);

// The last reading of this database since the server started; 0: none, or no place in shared memory.
int64 LastReading();
// About what a reading would be now: for dating, and for making tables ready.
int64 ClockNow();
// The time to judge expiry by, which must not be too late by any account: never later than the wall clock, as it is and
// as it is believed, nor, until that has run evenly for five minutes, than the last reading before the server started.
int64 ExpiryNow();

// What the keeper does in each round: stores a ceiling that is so far above the clock that emitters need not. Plain; a
// transaction of its own if there is anything to do.
bool CeilingIsLow();
void KeepCeiling();
// Call when leaving in good order: puts the ceiling where the clock is. In a transaction; a later session moves it
// again.
void SettleCeiling();

// What is known of this database's ceiling is out of date: the next reading looks again. Raises nothing; for the commit
// callback.
void ForgetClockCeiling();

// Putting the clock back to the wall clock. HoldClock: from now on, until the transaction ends or ReleaseClock(),
// sessions that want a reading of this database wait, except for transactions that have emitted already, which are to
// finish, and for workers. ResetClockAtCommit: it goes back when the transaction commits, and readings begin above
// `to`.
void HoldClock();
void ReleaseClock();
void ResetClockAtCommit(int64 to);
// Incremented by each reset: what was known of days that were over is void.
uint64 ClockResets();
// What the end of the transaction means for both. For the one callback of transaction_end.h.
void ClockAtTransactionEnd(XactEvent event);
// Call in workers, which may take readings while the clock is held: they date only positions, and reset_clock() takes
// care of those.
void ReadThroughHold();

}  // namespace outbox::pg
