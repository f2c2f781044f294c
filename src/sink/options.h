// Which options a destination takes [-]: our own allow-lists, asked before any client library sees a name or value.
// Some librdkafka properties load code, run a shell or read files; new library versions add more. So unknown names are
// refused, and the lists are ours: options.cpp (or kind.cpp) in the folder of each kind.
//
// Used twice: by the validators of CREATE/ALTER SERVER and USER MAPPING, and by MergeOptions right before Configure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sink/sink.h"

namespace outbox::sink {

struct SinkKind;  // kind.h

enum class OptionPlace : uint8_t { kServer, kMapping };

enum class OptionGroup : uint8_t {
  kOwner,      // the owner of the server may set it, within bounds
  kSecret,     // in a user mapping only: server options are readable by everybody
  kSuperuser,  // reads files, reaches other hosts, weakens security or costs resources
  kFixed,      // the extension sets it; `help` says to what and why
  kNever,      // runs code, controls the process, bypasses checks
  kConsumer,   // a consumer's property; this is a producer
};

enum class ValueType : uint8_t {
  kText,     // no control characters
  kPem,      // text with line breaks
  kBool,     // true/false, on/off, yes/no, 1/0
  kInteger,  // min..max
  kNumber,   // decimal, min..max
  kEnum,     // one of `choices`, separated by |
  kHosts,    // host[:port], comma-separated
  kHost,     // one host name or address, no port
  kPath,     // an absolute file name
  kSocket,   // that of a Unix-domain socket
  kWord,     // letters, digits and . _ / @ -
};

// One row of an allow-list.
struct OptionRule {
  const char* name;
  const char* canonical;  // the name it is an alias of; nullptr: itself
  OptionGroup group;
  ValueType type;
  int64_t min;
  int64_t max;
  const char* choices;  // kEnum only
  const char* help;     // a phrase, no full stop; kSuperuser: what the option does, "The option <help>." is told
  // See Reserved() and Instead() in option_rules.h.
  const char* reserved = nullptr;
  const char* why_reserved = nullptr;
  const char* instead = nullptr;
  const char* fixed_to = nullptr;  // kFixed: what may be given all the same, separated by |, and changes nothing
};

// What an option is called elsewhere, by other clients or in an address: `hint` says what to write here, in a sentence.
struct ForeignOption {
  const char* name;
  const char* hint;
};

// Why an option is refused, ready for ereport: message in lower case, detail and hint whole sentences or empty.
struct OptionProblem {
  const char* sqlstate = nullptr;  // five characters; nullptr: no problem
  std::string message;
  std::string detail;
  std::string hint;
  bool ok() const { return sqlstate == nullptr; }
};

using OptionList = std::vector<std::pair<std::string, std::string>>;

std::span<const OptionRule> OptionRules(const SinkKind& kind);
// Case-sensitive, as the libraries are. nullptr: unknown.
const OptionRule* FindOption(const SinkKind& kind, std::string_view name);
std::string CanonicalOption(const SinkKind& kind, std::string_view name);  // the name itself when unknown

// One option. SQLSTATEs: HV00D unknown or not allowed here, 42501 superuser only, 22023 bad value.
// Never repeats the value of a secret.
OptionProblem CheckOption(const SinkKind& kind, OptionPlace place, std::string_view name, std::string_view value,
                          bool is_superuser);
// All options of one server or mapping: each for itself, then the same option given twice through an alias (42710),
// then options against each other (22023).
OptionProblem CheckOptions(const SinkKind& kind, OptionPlace place, const OptionList& options, bool is_superuser);

// What a sink is configured with: both lists under canonical names and in canonical spelling (booleans are true or
// false), a mapping's over a server's. Checks everything again, as a superuser would be checked: the right to write an
// option was checked when it was written. On a problem `merged` is unchanged.
OptionProblem MergeOptions(const SinkKind& kind, const OptionList& server, const OptionList& mapping, Options* merged);

// Helpers for sinks reading merged options; the values have been checked.
std::string TextOption(const Options& options, const std::string& name, std::string_view fallback);
int64_t IntegerOption(const Options& options, const std::string& name, int64_t fallback);
bool BoolOption(const Options& options, const std::string& name, bool fallback);

}  // namespace outbox::sink
