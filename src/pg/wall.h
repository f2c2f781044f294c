// The server's wall clock, as far as it is believed [P]. Plain; neither allocates nor raises.
//
// A wall clock can be wrong for a while: an operator sets it, an NTP server lies, a virtual machine comes up with
// another one's time. What is dated, counted or dropped by it cannot be taken back. So it is compared with the boot
// clock (CLOCK_BOOTTIME where there is one: it runs on while the machine sleeps, and cannot be set). As long as the two
// go together the wall clock is believed. When it has jumped by more than a minute, in either direction, time goes on
// by the boot clock until the wall clock has been consistent for five minutes: a step that is undone by then has no
// effect.
#pragma once

#include "pg/prelude.h"

namespace outbox::pg {

inline constexpr int64 kSmallStepMicros = 60 * USECS_PER_SEC;      // believed at once
inline constexpr int64 kBelieveAfterMicros = 300 * USECS_PER_SEC;  // any other

// The wall clock of the operating system, and as it is believed: Unix microseconds. Without preload both are the same.
// The keepers read it every few seconds, so that it is known when a jump happened.
int64 RawWall();
int64 BelievedWall();
// By how much the wall clock has jumped while that is not believed yet, microseconds; 0: it has not.
int64 PendingJump();
// Believes the wall clock at once, because an operator says that it is right.
void BelieveWall();
// Whether the wall clock has run evenly for so long, since the server started or since it jumped, that it would be
// believed.
bool WallIsSettled();
// Microseconds since the server started, by the boot clock.
int64 MicrosSinceStart();

// Once, when shared memory is made.
void StartWall();

}  // namespace outbox::pg
