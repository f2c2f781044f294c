// The C boundary [P]: every function that Postgres calls by pointer goes through Entry(), so that no C++ exception
// ever leaves our code. Write SQL functions as
//
//   OUTBOX_FUNCTION(outbox_emit_text) { ... return PointerGetDatum(x); }    // `fcinfo` is in scope
//
// and add the name to exports.txt. The error is reported after the catch block has ended: a longjmp out of a handler
// would leave the C++ runtime believing that it still handles the exception.
#pragma once

#include "pg/guard.h"

struct TriggerData;

namespace outbox::pg {

// What is left of an exception once its handler has ended: plain palloc'd strings.
struct PendingError {
  ErrorData* rethrow = nullptr;
  int sqlstate = 0;
  char* message = nullptr;
  char* detail = nullptr;
  char* hint = nullptr;
};

// Call only inside a catch block: describes the exception being handled. Never throws.
PendingError DescribeCurrentException() noexcept;
// Reports it as an ERROR. Call after the catch block.
[[noreturn]] void Raise(const PendingError& error);

// Writes it to the server log at `level` (below ERROR), prefixed by `who`; for workers, which go on.
void Report(int level, const char* who, const PendingError& error);

// For the loops of workers: runs `body`; on an error returns false and says in *error what went wrong, instead of
// raising.
template <typename Body>
bool Attempt(Body&& body, PendingError* error) {
  try {
    body();
    return true;
  } catch (...) {
    *error = DescribeCurrentException();
  }
  return false;
}

template <typename Body, typename... Args>
auto Entry(Body body, Args... args) -> decltype(body(args...)) {
  PendingError error;
  try {
    return body(args...);
  } catch (...) {
    error = DescribeCurrentException();
  }
  Raise(error);
}

// The trigger that calls the SQL function; a UserError if it is called in another way.
TriggerData* TriggerOf(FunctionCallInfo fcinfo, const char* function);

}  // namespace outbox::pg

#define OUTBOX_FUNCTION(name)                        \
  static Datum name##_body(FunctionCallInfo fcinfo); \
  extern "C" {                                       \
  PG_FUNCTION_INFO_V1(name);                         \
  Datum name(PG_FUNCTION_ARGS) {                     \
    return outbox::pg::Entry(&name##_body, fcinfo);  \
  }                                                  \
  }                                                  \
  static Datum name##_body([[maybe_unused]] FunctionCallInfo fcinfo)
