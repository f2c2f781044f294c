// Starts a sink executable [-].
#pragma once

#include <sys/types.h>

#include <string>

namespace outbox::sink {

// Starts `executable` with a socket pair: its end is descriptor kSinkSocket, ours is returned (non-blocking, closed on
// exec). Standard input and output are /dev/null, standard error is inherited (the server log), every other descriptor
// is closed; signal mask empty, dispositions default; a process group of its own, because the postmaster signals the
// whole group of a worker; of the environment what client libraries need and no more. 0 or an errno.
// A program that KeepProgram() was told of is started as it was then; where that cannot be, the one that is in its
// place now.
int SpawnSink(const std::string& executable, pid_t* pid, int* socket);
// What an errno of SpawnSink() means, and what to do about it where the server process may open no more files.
std::string StartErrorText(int error);
// Closes it.
void CloseSinkSocket(int socket);

// Who counts the descriptors of this process, and has others that it can close: a server's open data files.
struct DescriptorKeeper {
  bool (*take)(int count);  // before they are opened; false, and none taken: there are to be no more
  void (*give_back)(int count);
  void (*make_room)();  // one was not to be had
};
// Once for each process, or before it is forked; without, nobody counts.
void SetDescriptorKeeper(const DescriptorKeeper& keeper);

// Keeps hold of a program, for this process and those it forks: a package that is installed over it, or removed,
// beneath a server that runs does not give the library it has loaded the sinks of another version. Once for each
// program, before anything is started; one that is not there is looked for anew each time it is started. Costs a
// descriptor.
void KeepProgram(const std::string& executable);

// A process of this program ended by itself before it was of any use: this process starts the other one next, of the
// kept one and the one in its place. It may be broken and mended since, or want libraries that were replaced with it;
// one of another version refuses the protocol's version. False: there is no other.
bool PassOver(const std::string& executable);

}  // namespace outbox::sink
