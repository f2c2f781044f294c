// Acting as the owner of outbox's tables [P], whoever calls: a role that was granted a function needs no right to the
// tables behind it, and what the owner has made of them (triggers, defaults, policies) runs with his rights and no
// others, also where a keeper or a superuser calls. A worker's transactions as a whole: SetTransactionRole().
//
// Plain code. An error gives the caller's rights and settings back, too: PostgreSQL notes both when a transaction or a
// savepoint begins, and takes them back when it aborts. So whoever catches an error that came out of here lets its
// transaction abort, or has begun one for it; nothing runs in between.
#pragma once

#include <span>
#include <type_traits>

#include "pg/statement_settings.h"

namespace outbox::pg {

// The mark of what outbox does itself, for InOwnStatement(): a bit of the security context that PostgreSQL does not
// use, so that it comes and goes with it: with the owner's rights, at the abort of a savepoint, into parallel workers
// and into the queries of foreign keys. (SECURITY_RESTRICTED_OPERATION would say less: a person's function in a
// materialized view is in one, too.)
inline constexpr int kOwnStatement = 1 << 24;

// Raises an error where there is no such table.
Oid OwnerOf(Oid table);

// For AsOwner(), which undoes what this does.
struct CallerRights {
  Oid user;
  int security_context;
  int guc_level;
};
CallerRights BecomeOwner(Oid owner, std::span<const PinnedSetting> settings);
void BecomeCaller(const CallerRights& caller);

// Returns what `work` returns. Where there are settings, what it pins besides them ends with it, too.
template <typename Work>
auto AsOwner(Oid owner, std::span<const PinnedSetting> settings, Work&& work) -> decltype(work()) {
  using Value = decltype(work());
  const CallerRights caller = BecomeOwner(owner, settings);
  if constexpr (std::is_void_v<Value>) {
    work();
    BecomeCaller(caller);
  } else {
    static_assert(std::is_trivially_copyable_v<Value>, "an error would jump over its destructor");
    const Value result = work();
    BecomeCaller(caller);
    return result;
  }
}

}  // namespace outbox::pg
