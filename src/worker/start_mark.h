// What the launcher remembers of its processes over a crash of the server [P], so that a process that crashes at every
// start does not restart all sessions over and over: shared memory and the launcher's own are gone by then.
//
// A file of pg_stat/ per process that was started less than kQuickDeathMs ago, or that has crashed: how many times in a
// row, and whether it is running. The launcher makes it before it starts the process and removes it when the process
// has lived long enough. A process that ends in any other way than by a crash of its own (exit, or SIGQUIT because
// another process crashed) says so in its file. So a file that says "running" and belongs to no process means that this
// process crashed. A backup or pg_rewind takes the files of a running server along: a copy is no file of this server.
//
// Plain code. No file is synced: a crash of the machine is not a process's fault.
#pragma once

#include "pg/prelude.h"
#include "pg/shared.h"

namespace outbox::worker {

// Which process; kind 0 is the launcher.
struct MarkedProcess {
  Oid database;
  int kind;
  int ordinal;
};

constexpr int kCrashesForgiven = 2;  // in a row, before a process is held back

// How long a process is held back after so many crashes in a row: 0, 0, 0, 2 s, 4 s ... 5 minutes.
long CrashDelayMs(int crashes);

// Call before the process is started.
void MarkStart(const MarkedProcess& process, int crashes);
// The process is held back, and not running.
void MarkWaiting(const MarkedProcess& process);
// The process lived long enough, was asked to stop, or is no longer wanted.
void ForgetStart(const MarkedProcess& process);

// In the process itself, once: from here on exits and SIGQUIT are told apart from crashes.
void WatchOwnStart(const MarkedProcess& process);

// Calls `seen` for every file there is: crashes in a row with this one; whether the process was running. `context` is
// passed through. Files that say nothing sensible, and copies, are removed.
using SeenMark = void (*)(const MarkedProcess& process, int crashes, bool running, void* context);
void ReadStartMarks(SeenMark seen, void* context);

}  // namespace outbox::worker
