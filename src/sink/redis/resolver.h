// Looks names up without blocking the caller [-]: getaddrinfo waits 5 s for each server and try by default, and again
// for each search domain; the sink's loop, which has to let hear of itself, cannot. A thread of its own does it, one
// at a time. One that is not wanted any more is left to its end; its answer is taken by the next Begin() of the name.
//
// Used by one thread.
#pragma once

#include <netdb.h>

#include <memory>
#include <string>

namespace outbox::sink {

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { freeaddrinfo(addresses); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

class Resolver {
 public:
  Resolver();
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // Always of the same name: what is in flight serves as well. False: no thread, or no descriptor.
  bool Begin(const std::string& host, const std::string& port);
  // True once, when the answer is there: 0 and addresses, or an error of getaddrinfo.
  bool Take(int* error, Addresses* found);
  // Readable when it is; -1: nothing is in flight.
  int fd() const;

 private:
  struct Lookup;
  std::shared_ptr<Lookup> lookup_;
};

}  // namespace outbox::sink
