#include "log/attempt.h"

namespace outbox::log {

MemoryContext ErrorContext() {
  static MemoryContext context = nullptr;
  if (context == nullptr) {
    context = AllocSetContextCreate(TopMemoryContext, "outbox lane log", ALLOCSET_SMALL_SIZES);
  }
  return context;
}

Status StatusOf(const pg::PgError& error) {
  return Status(ErrorClass::kInternal, unpack_sql_state(error.sqlstate()), error.what());
}

}  // namespace outbox::log
