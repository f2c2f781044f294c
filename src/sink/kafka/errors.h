// What an error code of librdkafka or of a broker means for the records it came with: one table [-].
// A delivery report (or a refused produce call) brings a code; its class decides, its text never does. Codes are
// numbers here because a broker may send, and a newer library may report, what this build's header has no name for.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace outbox::sink::kafka {

// What a report with this code says about its records.
enum class Verdict : uint8_t {
  kRefused,  // the class below is charged
  kBatch,    // the batch was refused as a whole: alone in it, the class below; in company, send them again one by one
  kRetry,    // nobody's fault, or our own purge: send again in order with a new producer
};

struct ErrorRule {
  int code;
  const char* name;
  Verdict verdict;
  ErrorClass error_class;  // kNone with kRetry
  bool learn_size;         // the batch was larger than the topic takes: smaller ones from now on
};

std::span<const ErrorRule> ErrorRules();

// Codes the table does not have are destination trouble: the list grows with every broker version.
const ErrorRule& RuleFor(int code);

// The error for a record. `detail` may be empty; then the code's own text is used.
Error MakeError(int code, ErrorClass error_class, std::string detail);

// Codes of error events (not of reports): what they say about the destination.
ErrorClass EventClass(int code);

}  // namespace outbox::sink::kafka
