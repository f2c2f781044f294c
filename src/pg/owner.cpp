#include "pg/owner.h"

extern "C" {
#include "catalog/pg_class.h"
}

namespace outbox::pg {

Oid OwnerOf(Oid table) {
  HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
  if (!HeapTupleIsValid(tuple)) {
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("a table of outbox does not exist")));
  }
  const Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->relowner;
  ReleaseSysCache(tuple);
  return owner;
}

CallerRights BecomeOwner(Oid owner, std::span<const PinnedSetting> settings) {
  CallerRights caller = {};
  GetUserIdAndSecContext(&caller.user, &caller.security_context);
  SetUserIdAndSecContext(
      owner, caller.security_context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION | kOwnStatement);
  caller.guc_level = settings.empty() ? 0 : Pin(settings);
  return caller;
}

void BecomeCaller(const CallerRights& caller) {
  if (caller.guc_level != 0) {
    AtEOXact_GUC(false, caller.guc_level);
  }
  SetUserIdAndSecContext(caller.user, caller.security_context);
}

}  // namespace outbox::pg
