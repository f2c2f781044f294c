#include "pg/subtransaction.h"

#include "pg/trouble_hints.h"

extern "C" {
#include "access/xact.h"
#include "utils/resowner.h"
}

namespace outbox::pg {

void BeginSubtransaction(Subtransaction* from) {
  *from = {CurrentMemoryContext, CurrentResourceOwner};
  BeginInternalSubTransaction(nullptr);
  MemoryContextSwitchTo(from->context);
}

void EndSubtransaction(const Subtransaction& from, bool keep) {
  if (keep) {
    ReleaseCurrentSubTransaction();
  } else {
    RollbackAndReleaseCurrentSubTransaction();
  }
  MemoryContextSwitchTo(from.context);
  CurrentResourceOwner = from.owner;
}

bool ConcernsPart(const PgError& error) {
  const std::string_view code = unpack_sql_state(error.sqlstate());
  // Somebody's intervention, a conflict that ends the transaction; a lock that was waited for long enough; no memory.
  return !code.starts_with("57") && !code.starts_with("40") && code != "55P03" &&
         (code != kOutOfMemory || IsOutOfLocks(error));
}

bool IsUnreadable(const PgError& error) {
  return IsUnreadable(std::string_view(unpack_sql_state(error.sqlstate())));
}

}  // namespace outbox::pg
