// Workers that are there and do nothing [P]: stopped, or waiting for the disk or for another process. Whoever tells of
// it goes by this.
#pragma once

#include "pg/shared.h"

namespace outbox::admin {

// Longer than any turn of a worker takes that is well, microseconds.
int64 LongestTurn(pg::WorkerKind kind);
// Since when it does nothing, Unix microseconds; 0: it does its turns. `turn`: when it ended the last (pg::LastTurn()).
int64 StandsSince(int64 turn, int64 longest);

}  // namespace outbox::admin
