// Errors by value [-]. An error's class, never its text, decides what happens next (design: "Errors have classes").
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace outbox {

enum class ErrorClass : uint8_t {
  kNone = 0,
  kMessage = 1,      // this event can never be accepted as it is; charged to the event
  kSolo = 2,         // a batch was refused and the culprit is unknown: send its events one by one, then decide
  kTopic = 3,        // only this topic or stream is in trouble
  kDestination = 4,  // the destination is down, slow or refusing everything; nothing is charged to an event
  kConfig = 5,       // credentials, TLS, an option: like destination, but an operator must act
  kFatalClient = 6,  // the client library's handle is dead; a new one is made
  kInternal = 7,     // a bug of outbox; treated as destination trouble and logged loudly
  kLast = kInternal,
};

inline constexpr size_t kErrorClasses = static_cast<size_t>(ErrorClass::kLast) + 1;

// Lower-case word for views and messages: "message", "topic", ...
const char* ErrorClassName(ErrorClass error_class);

struct Error {
  ErrorClass error_class = ErrorClass::kNone;
  std::string code;     // short and stable: "MSG_SIZE_TOO_LARGE", "WRONGTYPE"
  std::string message;  // for people; never holds a secret or a payload

  bool ok() const { return error_class == ErrorClass::kNone; }
};

// Code of a failed Status: another session has something locked. No call waits for that: it is tried again soon,
// however often it has failed, because nothing signals that the lock has gone.
inline constexpr const char* kLocked = "LOCKED";
// Code of a failed Status: the lane is no longer this worker's. Nothing was written, and the lane must be let go at
// once.
inline constexpr const char* kNotOwner = "NOT_OWNER";

// Code of an error of class topic: only a part of the topic takes nothing, that which this record belongs to.
inline constexpr const char* kPartOfTopic = "PARTITION_STALLED";

// The result of an operation that can fail.
class [[nodiscard]] Status {
 public:
  Status() = default;
  explicit Status(Error error) : error_(std::move(error)) {}
  Status(ErrorClass error_class, std::string code, std::string message)
      : error_{error_class, std::move(code), std::move(message)} {}

  bool ok() const { return error_.ok(); }
  const Error& error() const { return error_; }

  // The status of a call on behalf of a lane's owner that was made: `owner` is what it found.
  Status OfOwner(bool owner) && {
    return owner || !ok() ? std::move(*this) : Status(ErrorClass::kInternal, kNotOwner, "another worker owns the lane");
  }
  bool not_owner() const { return error_.code == kNotOwner; }

 private:
  Error error_;
};

}  // namespace outbox
