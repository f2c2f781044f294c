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

// How a trigger is to call an SQL function. What of TriggerData is there to be looked at follows from it, so nobody
// looks before TriggerOf() has.
struct TriggerUse {
  const char* function;              // "outbox.emit_row()"
  bool (*fits)(const TriggerData&);  // time, level and event
  const char* form;                  // the same in words: "an AFTER trigger FOR EACH ROW"
  const char* usage = nullptr;       // for the HINT; nullptr: no user has to make one
};
// The trigger that calls the SQL function; a UserError if it is called in another way.
TriggerData* TriggerOf(FunctionCallInfo fcinfo, const TriggerUse& use);
// For a function that is to be called by different triggers of different relations.
void RequireUse(const TriggerData& trigger, const TriggerUse& use);
// As it should be, but for the relation: the function is made for `relation`.
[[noreturn]] void RefuseRelation(const TriggerData& trigger, const TriggerUse& use, const char* relation);

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
