#include "pg/guard.h"

namespace outbox::pg {

namespace {

char out_of_memory_text[] = "out of memory";

// What is thrown where there is no memory to copy an error into. ReThrowError() copies it; it is never freed.
ErrorData* OutOfMemory() {
  static ErrorData error;
  memset(&error, 0, sizeof(error));
  error.elevel = ERROR;
  error.output_to_server = true;
  error.output_to_client = true;
  error.sqlerrcode = ERRCODE_OUT_OF_MEMORY;
  error.message = out_of_memory_text;
  error.assoc_context = TopMemoryContext;
  return &error;
}

}  // namespace

ErrorData* TakeError(MemoryContext context) {
  ErrorData* volatile error = nullptr;
  PG_TRY();
  {
    MemoryContextSwitchTo(context);
    error = CopyErrorData();
  }
  PG_CATCH();
  { error = OutOfMemory(); }
  PG_END_TRY();
  MemoryContextSwitchTo(context);
  FlushErrorState();
  return error;
}

ErrorData* CopyError(const PgError& error, MemoryContext context) {
  ErrorData* const data = error.data();
  ErrorData* volatile copy = nullptr;
  PG_TRY();
  { ReThrowError(data); }
  PG_CATCH();
  { copy = TakeError(context); }
  PG_END_TRY();
  return copy;
}

void DropError(const PgError& error) {
  if (error.data()->message != out_of_memory_text) {
    FreeErrorData(error.data());
  }
}

}  // namespace outbox::pg
