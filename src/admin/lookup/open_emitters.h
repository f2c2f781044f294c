// Transactions that have emitted and are not over [P]: what they commit is in no count of what is undelivered.
#pragma once

#include <string>

#include "pg/prelude.h"

namespace outbox::admin {

// How many other transactions of this database have emitted, prepared ones too: they hold the lock of a day table.
// Throws PgError.
int64 OpenEmitters();
// "3 open transactions have emitted".
std::string TellOpenEmitters(int64 count);

}  // namespace outbox::admin
