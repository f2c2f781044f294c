// Starts a sink executable [-].
#pragma once

#include <sys/types.h>

#include <string>

namespace outbox::sink {

// Starts `executable` with a socket pair: its end is descriptor kSinkSocket, ours is returned (non-blocking, closed on
// exec). Standard input and output are /dev/null, standard error is inherited (the server log), every other descriptor
// is closed; signal mask empty, dispositions default; a process group of its own, because the postmaster signals the
// whole group of a worker; of the environment what client libraries need and no more. 0 or an errno.
int SpawnSink(const std::string& executable, pid_t* pid, int* socket);

}  // namespace outbox::sink
