#include "pg/try.h"

#include "pg/log_line.h"

namespace outbox::pg {

MemoryContext ErrorContext() {
  static MemoryContext context = nullptr;
  if (context == nullptr) {
    context = AllocSetContextCreate(TopMemoryContext, "outbox errors", ALLOCSET_SMALL_SIZES);
  }
  return context;
}

Status StatusOf(const PgError& error) {
  if (error.sqlstate() == ERRCODE_LOCK_NOT_AVAILABLE) {
    return Status(
        ErrorClass::kInternal, kLocked,
        "another session holds a lock that is needed for this (pg_locks shows which); it is tried again all the time");
  }
  return Status(ErrorClass::kInternal, unpack_sql_state(error.sqlstate()),
                MayTellOfRow(error.sqlstate()) ? kRowTold : error.what());
}

}  // namespace outbox::pg
