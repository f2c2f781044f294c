#include "pg/descriptors.h"

#include "pg/guard.h"
#include "pg/trouble_hints.h"

extern "C" {
#include "storage/fd.h"
#if PG_VERSION_NUM >= 180000
#include "storage/waiteventset.h"
#endif
}

namespace outbox::pg {

namespace {

constexpr int kLeft = 16;  // besides those that PostgreSQL keeps back for what it does not count itself

int taken = 0;

// It may want to say that a file could not be closed, and have no memory for that.
template <typename Body>
bool Quietly(Body&& body) noexcept {
  try {
    Guard(body);
    return true;
  } catch (const PgError& error) {
    DropError(error);
  } catch (...) {  // NOLINT(bugprone-empty-catch): there is none other
  }
  return false;
}

void Take(int count) noexcept {
  for (int i = 0; i < count; i++) {
    taken += Quietly([] { ReserveExternalFD(); });
  }
}

void HintAtLimit(void*) {
  if (geterrcode() == ERRCODE_INTERNAL_ERROR) {
    errhint("%s", kFewDescriptorsHint);
  }
}

WaitEventSet* CreateSet(int room) {
#if PG_VERSION_NUM >= 170000
  return CreateWaitEventSet(nullptr, room);
#else
  return CreateWaitEventSet(TopMemoryContext, room);
#endif
}

}  // namespace

bool TakeDescriptors(int count) noexcept {
  if (taken + count > max_safe_fds - kLeft) {
    return false;
  }
  Take(count);
  return true;
}

void GiveBackDescriptors(int count) noexcept {
  for (; count > 0 && taken > 0; count--, taken--) {
    ReleaseExternalFD();
  }
}

void CloseDataFiles() noexcept {
  Quietly([] { closeAllVfds(); });
}

WaitEventSet* NewWaitEventSet(int room) {
  ErrorContextCallback hint = {error_context_stack, HintAtLimit, nullptr};
  WaitEventSet* volatile set = nullptr;
  // Room is made while all are counted; then those of the sockets are as if they were not.
  Take(1);
  const int lent = taken;
  GiveBackDescriptors(lent);
  PG_TRY();
  {
    error_context_stack = &hint;
    set = CreateSet(room);
  }
  PG_FINALLY();
  { Take(lent - 1); }
  PG_END_TRY();
  error_context_stack = hint.previous;
  return set;
}

}  // namespace outbox::pg
