// Takes from a sink process the rights that it does not need [-]. The client libraries parse input from outside, and
// this process runs as the server's user: an attacker who takes one over must not get the data directory.
//
// Each step is for the rest of the process's life and for what it starts. Where the kernel has no landlock
// (before 5.13, or switched off) or no seccomp the step is left out: DescribeConfinement() says what there is. No
// privileges are needed, also not in containers.
//
//   ConfineProcess   no new privileges, no capabilities; refused from then on (seccomp, refused_calls.cpp): starting
//                    programs and processes, looking into other processes, signalling them (also by way of a file's
//                    owner), setting their limits, priorities and processors, SysV memory, semaphores and queues,
//                    POSIX queues, keys, mounts and namespaces, the kernel's loaders and clocks, io_uring, open by
//                    handle; and what landlock does not ask about: mode, owner, times, attributes and length of a file
//                    under its name
//   ConfineSockets   no Unix-domain socket can be made (seccomp) but pairs of connected ones: the server's own lets its
//                    user in as a superuser where pg_hba.conf says `local ... peer`. Not where an option of the
//                    destination names one: which of them is connected to, nothing here can tell
//   ConfineFiles     no file can be opened (landlock) but to read: libraries, /etc, time zones, the system's
//                    certificates, /proc and /sys, and what the destination's options name: a file, and for the sake
//                    of certificates that are renewed its directory, unless a data directory of PostgreSQL would be
//                    opened with it (data_directories.h). Where the sink says so also /tmp; elsewhere mode, owner and
//                    attributes of open files stay as they are (seccomp). No signals and no abstract
//                    sockets beyond this process, from the version of landlock on that has it. Without landlock files
//                    stay open, and in /proc with them what other processes of the user have in memory and environment
//
// Not confined: the network (brokers are anywhere), what is open already (the socket, standard error), memory and CPU.
// Sanitizer builds keep files, programs and processes open: their runtimes write reports and start symbolizers.
#pragma once

#include <string>
#include <vector>

namespace outbox::sink {

// Before any thread is started. Can be called once.
void ConfineProcess();
// After ConfineProcess(), before any thread is started. Resolvers that ask a local service by such a socket (nscd,
// nss-resolve) take it for absent, and go on with files and DNS.
void ConfineSockets();
struct FileNeeds {
  std::vector<std::string> files;  // that options name; directories may be among them
  std::string data_directory;      // the server's own
  bool temporary = false;          // the sink needs /tmp and /var/tmp
};
// After ConfineProcess(), before any thread is started.
void ConfineFiles(const FileNeeds& needs);
// Whether one of `files` cannot be read where its name leads to by now, other than when ConfineFiles() admitted it: by
// a link into another directory, to another directory of the same name, or to another file where the directory stays
// closed. A new process can be let in there.
bool ShutOutOfRenewed();
// "no_new_privs seccomp landlock": what is in force in this process.
std::string DescribeConfinement();

}  // namespace outbox::sink
