#include "pg/try.h"

#include "pg/log_line.h"
#include "pg/trouble_hints.h"

namespace outbox::pg {

MemoryContext ErrorContext() {
  static MemoryContext context = nullptr;
  if (context == nullptr) {
    context = AllocSetContextCreate(TopMemoryContext, "outbox errors", ALLOCSET_SMALL_SIZES);
  }
  return context;
}

bool IsOutOfLocks(const PgError& error) {
  return error.sqlstate() == ERRCODE_OUT_OF_MEMORY && error.data()->hint != nullptr &&
         NamesLockSetting(error.data()->hint);
}

Status StatusOf(const PgError& error) {
  if (error.sqlstate() == ERRCODE_LOCK_NOT_AVAILABLE) {
    return Status(
        ErrorClass::kInternal, kLocked,
        "another session holds a lock that is needed for this (pg_locks shows which); it is tried again all the time");
  }
  std::string message = MayTellOfRow(error.sqlstate()) ? kRowTold : error.what();
  if (IsOutOfLocks(error)) {
    message += std::string(" (") + error.data()->hint + ")";
  }
  return Status(ErrorClass::kInternal, unpack_sql_state(error.sqlstate()), std::move(message));
}

}  // namespace outbox::pg
