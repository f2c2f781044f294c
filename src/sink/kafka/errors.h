// What an error code of librdkafka or of a broker means for the records it came with: one table [-].
// A delivery report (or a refused produce call) brings a code; its class decides, its text never does. Codes are
// numbers here because a broker may send, and a newer library may report, what this build's header has no name for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

struct rd_kafka_s;
struct rd_kafka_op_s;  // an event

namespace outbox::sink::kafka {

// What a report with this code says about its records.
enum class Meaning : uint8_t {
  kRefused,  // the class below is charged
  kBatch,    // the batch was refused as a whole: alone in it, the class below; in company, send them again one by one
  kRetry,    // no event is charged: send again in order with a new producer. The class is for messages only
};

enum class Note : uint8_t {
  kNone,
  kSize,    // the batch was larger than the topic takes: smaller ones from now on
  kCapped,  // after kCappedTries in a row, with nothing delivered to the topic between, it is the topic's trouble
};
inline constexpr uint32_t kCappedTries = 5;

struct ErrorRule {
  int code;
  const char* name;
  Meaning meaning;
  ErrorClass error_class;  // kNone: nothing went wrong, it only has to be sent again
  Note note;
};

std::span<const ErrorRule> ErrorRules();

// Codes the table does not have are destination trouble with a cap: the list grows with every broker version. Never
// the message's: a broker that knows something new must not turn events into dead letters.
const ErrorRule& RuleFor(int code);

// A text about a code, for messages.
std::string CodeText(int code);

// The error for a record. `detail` may be empty; then the code's own text is used.
Error MakeError(int code, ErrorClass error_class, std::string detail);

// Why a client of the library has given up; ok(): it has not. Not each such end comes as an event: version 2.0 raises
// none where the user may write nowhere.
Error FatalError(rd_kafka_s* handle);

// What a log line of the library says of a broker that has given its idempotent producer no id, which no event tells;
// "": it is another line. It asks again, and nothing is sent meanwhile. Now and then a broker says so once while it
// gets ids from the controller.
std::string NoProducerId(rd_kafka_op_s* log);

// The code of an error event with that text. Most brokers refuse a client's certificate after the handshake (TLS 1.3),
// which the library takes for a connection that was lost; it counts as TLS, as in the handshake.
int EventCode(int code, std::string_view text);
// Whether such a text says that.
bool RefusesCertificate(std::string_view text);

// Codes of error events (not of reports): what they say about the destination.
ErrorClass EventClass(int code);
// Whether that is what the cluster, or the library, says of a topic that does not exist.
bool MissingTopic(int code);

}  // namespace outbox::sink::kafka
