# 140, with all tables of the extension locked for ten seconds in each mode: no event of another route is late by as much as
# three, which is no part of the ten.
# matrix: S4 R5
# ring: long
use strict;
use warnings;

$ENV{OUTBOX_TEST_LOCK_SECONDS} = 10;
exec $^X, "$ENV{OUTBOX_TOP}/test/t/140_locks_hold_up_nobody.pl" or die $!;
