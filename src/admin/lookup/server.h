// A destination by the name of its foreign server [P].
#pragma once

#include <optional>
#include <string>

#include "sink/kind.h"

namespace outbox::admin {

struct Destination {
  unsigned int oid = 0;
  std::string wrapper;
  const sink::SinkKind* kind = nullptr;
  sink::OptionList options;  // of the server, as written
};

// Returns nullopt if there is no foreign server of that name, or its wrapper is not one of outbox's (`wrapper` is
// filled then).
std::optional<Destination> FindDestination(const std::string& name, std::string* wrapper);

// Throws UserError where there is none: missing (42704), of another wrapper (42809).
Destination KnownDestination(const std::string& name);

// The destination that a route is to be given. Throws UserError where it cannot be used: not known, the caller lacks
// USAGE (42501), an option that it cannot do without is not there (HV00J).
Destination UsableDestination(const std::string& name);

// The required option that the destination lacks; nullptr: none.
const sink::RequiredOption* MissingOption(const Destination& destination);

}  // namespace outbox::admin
