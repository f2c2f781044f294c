// Between Postgres errors and C++ exceptions [P].
//
// Postgres raises by longjmp, which skips C++ destructors; a C++ exception that leaves our code ends every session of
// the server. So there are two kinds of code in the [P] folders, and each function is one of them:
//
//   1. Plain code: no object with a destructor alive on any of our frames. It may call Postgres directly and may
//      ereport(ERROR). SQL functions on the hot path (emit) are written so.
//   2. C++ code that owns things. It calls Postgres only through Guard(), one call (or one plain function) at a time.
//      A Postgres error comes out as a PgError exception. The C boundary (entry.h) turns it back.
//
// The body given to Guard() must itself be plain code: nothing in it may own anything. What it returns must be
// trivially copyable. FATAL does not come back as an exception: the process exits, and destructors do not run.
#pragma once

#include <exception>
#include <string>
#include <type_traits>

#include "pg/prelude.h"

namespace outbox::pg {

// A Postgres error on its way through C++ frames. Owns nothing: the ErrorData lives in the memory context that was
// current when Guard() was called, and is reported or dropped (DropError) where the exception is caught.
class PgError : public std::exception {
 public:
  explicit PgError(ErrorData* data) noexcept : data_(data) {}
  const char* what() const noexcept override { return data_->message != nullptr ? data_->message : "error"; }
  ErrorData* data() const noexcept { return data_; }
  int sqlstate() const noexcept { return data_->sqlerrcode; }

 private:
  ErrorData* data_;
};

// An error of our own, raised from C++ code that owns things (plain code uses ereport).
struct UserError {
  int sqlstate = 0;
  std::string message;
  std::string detail;  // empty: none
  std::string hint;    // empty: none
};

// Frees what it holds. Code that catches an exception and reports nothing may leave that to the memory context.
void DropError(const PgError& error);

// For Guard(), inside PG_CATCH: a copy of the current error in `context`, which becomes the current one; the error
// state is cleared. Never raises: without memory for a copy it is a fixed "out of memory" (an ERROR here would jump
// over Guard()'s callers and their destructors).
ErrorData* TakeError(MemoryContext context);

// A copy of an error in another context, for code that is about to free the one it lies in. Never raises, like
// TakeError().
ErrorData* CopyError(const PgError& error, MemoryContext context);

// Calls `body` so that a Postgres error becomes a PgError. Costs one sigsetjmp. A C++ exception thrown by the body
// passes through (the exception stack of Postgres is put right first). The body may fill owners that were declared
// outside of it.
template <typename Body>
auto Guard(Body&& body) -> decltype(body()) {
  using Value = decltype(body());
  using Stored = std::conditional_t<std::is_void_v<Value>, char, Value>;
  static_assert(std::is_trivially_copyable_v<Stored>, "a guarded body must not return an owner");
  MemoryContext context = CurrentMemoryContext;
  ErrorData* volatile error = nullptr;
  std::exception_ptr thrown;
  Stored result{};
  Stored* slot = &result;
  std::exception_ptr* thrown_slot = &thrown;
  PG_TRY();
  {
    try {
      if constexpr (std::is_void_v<Value>) {
        body();
      } else {
        *slot = body();
      }
    } catch (...) {
      *thrown_slot = std::current_exception();
    }
  }
  PG_CATCH();
  { error = TakeError(context); }
  PG_END_TRY();
  if (error != nullptr) {
    throw PgError(error);
  }
  if (thrown) {
    std::rethrow_exception(thrown);
  }
  if constexpr (!std::is_void_v<Value>) {
    return result;
  }
}

}  // namespace outbox::pg
