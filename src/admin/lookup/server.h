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
  sink::OptionList options;  // of the server, as AppendOptions() gives them
};

// Returns nullopt if there is no foreign server of that name, or its wrapper is not one of outbox's (`wrapper` says
// which then; empty: there is none).
std::optional<Destination> FindDestination(const std::string& name, std::string* wrapper = nullptr);

// Throws UserError where there is none: missing (42704), of another wrapper (42809).
Destination KnownDestination(const std::string& name);

// The destination that a route is to be given. Throws UserError where it cannot be used: not known, the caller lacks
// USAGE (42501), an option that it cannot do without is not there (HV00J).
Destination UsableDestination(const std::string& name);

// The same, and it keeps its name until the transaction ends: DROP SERVER and ALTER SERVER ... RENAME wait for that,
// and so does this for them. Other uses of it, and changes of its options, hold nobody up. Before any row of a route is
// locked: whoever renames a server locks rows of routes behind it.
Destination KeptDestination(const std::string& name);
// Of a destination that was found by that name. Returns false if the name has become another's, or nobody's.
bool KeepDestination(const std::string& name, const Destination& destination);

// The required option that the destination lacks; nullptr: none.
const sink::RequiredOption* MissingOption(const Destination& destination);

}  // namespace outbox::admin
