#include "inbox/as_owner.h"

#include "inbox/ring.h"

namespace outbox::inbox {

namespace {

Oid OwnerOfInbox() {
  HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(InboxTable("inbox_kept")));
  if (!HeapTupleIsValid(tuple)) {
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("outbox_internal.inbox_kept was dropped just now")));
  }
  const Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->relowner;
  ReleaseSysCache(tuple);
  return owner;
}

}  // namespace

Caller BecomeOwner() {
  Caller caller = {};
  const Oid owner = OwnerOfInbox();
  GetUserIdAndSecContext(&caller.user, &caller.security_context);
  SetUserIdAndSecContext(owner, caller.security_context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
  if (SPI_connect() != SPI_OK_CONNECT) {
    ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not connect to SPI")));
  }
  return caller;
}

void BecomeCaller(const Caller& caller) {
  SPI_finish();
  SetUserIdAndSecContext(caller.user, caller.security_context);
}

uint64 Run(pg::Statement* statement, Datum* values, bool newest, const char* nulls) {
  pg::Prepare(statement);
  if (newest) {
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    pg::CheckSpi(SPI_execute_snapshot(statement->plan, values, nulls, snapshot, InvalidSnapshot, false, true, 0));
    UnregisterSnapshot(snapshot);
  } else {
    pg::CheckSpi(SPI_execute_plan(statement->plan, values, nulls, false, 0));
  }
  return SPI_processed;
}

}  // namespace outbox::inbox
