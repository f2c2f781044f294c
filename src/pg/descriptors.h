// Descriptors that PostgreSQL does not open itself [P]: sockets of the sink processes.
//
// It keeps data files open for later, as many as the process may have (fd.c); what it is not told of it does not leave
// room for, and once all are taken nothing gives one back: a socket is refused, and so is the set that a worker waits
// with.
#pragma once

#include "pg/prelude.h"

namespace outbox::pg {

// Call before opening so many: closes data files where they would be too many. False, and nothing is taken, where
// PostgreSQL would have too few left: a file of the WAL that cannot be opened ends the server. None of these raises or
// throws.
bool TakeDescriptors(int count) noexcept;
// Call after they were closed, or were not to be had.
void GiveBackDescriptors(int count) noexcept;
// Where one was not to be had all the same, since somebody else opens files untold: closes all data files that need not
// be open.
void CloseDataFiles() noexcept;

// Plain. A set to wait with, which counts as one that PostgreSQL does not open itself, and of those it allows a third
// of what there are: sockets may be as many, and it would be refused. An error says what a person can do.
WaitEventSet* NewWaitEventSet(int room);

}  // namespace outbox::pg
