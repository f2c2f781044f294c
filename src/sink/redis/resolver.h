// Looks names up without blocking the caller [-]: getaddrinfo waits 5 s for each server and try by default, and again
// for each search domain; the sink's loop, which has to send signs of life, cannot. A thread of its own does it, one at
// a time. A look-up that is not wanted any more is left to end by itself; the next Begin() of the name takes its
// answer.
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

  // The name is always the same, so a look-up that is running serves as well. Returns false if there is no thread, or
  // no descriptor.
  bool Begin(const std::string& host, const std::string& port);
  // Returns true once, when the answer is there: 0 and addresses, or an error of getaddrinfo.
  bool Take(int* error, Addresses* found);
  // Readable when the answer is there; -1: no look-up is running.
  int fd() const;

 private:
  struct Lookup;
  std::shared_ptr<Lookup> lookup_;
};

}  // namespace outbox::sink
