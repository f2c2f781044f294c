// How the interfaces to the engine run their transactions [P]: every error becomes a Status.
#pragma once

#include "base/status.h"
#include "pg/transaction.h"

namespace outbox::pg {

// The memory context of errors of transactions, until they have become a Status.
MemoryContext ErrorContext();
Status StatusOf(const PgError& error);
// Whether the server's table of locks is full, which has the SQLSTATE of memory that has run out. The message of its
// Status has the server's hint.
bool IsOutOfLocks(const PgError& error);

// Runs `work`, turning every error into a Status; the memory context is as before afterwards.
template <typename Work>
Status Try(Work&& work) {
  MemoryContext saved = CurrentMemoryContext;
  Status status;
  try {
    work();
  } catch (const PgError& error) {
    status = StatusOf(error);
  } catch (const std::exception& error) {
    status = Status(ErrorClass::kInternal, "LOG_READ", error.what());
  }
  MemoryContextSwitchTo(saved);
  MemoryContextReset(ErrorContext());
  return status;
}

// `work` is plain code, as for InTransaction.
template <typename Work>
Status TryInTransaction(Work&& work) {
  return Try([&] { InTransaction(ErrorContext(), work); });
}

}  // namespace outbox::pg
