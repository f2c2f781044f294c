#include "emit/copy.h"

#include "pg/prelude.h"
#include "pg/schemas.h"
#include "pg/server_versions.h"
#include "pg/settings.h"

extern "C" {
#include "catalog/namespace.h"
#include "storage/lmgr.h"
}

namespace outbox::emit {

namespace {

bool IsOurs(HeapTuple row, TupleDesc columns) {
  bool null = false;
  const char* instance = pg::settings.instance != nullptr ? pg::settings.instance : "";
  return DatumGetInt64(heap_getattr(row, 1, columns, &null)) == static_cast<int64>(GetSystemIdentifier()) &&
         DatumGetObjectId(heap_getattr(row, 2, columns, &null)) == MyDatabaseId &&
         strcmp(TextDatumGetCString(heap_getattr(row, 3, columns, &null)), instance) == 0;
}

enum class Answer { kOwn, kCopy, kNotNow };

// Reads without SPI and rights, since every session does this; takes no predicate locks that could conflict; and does
// not wait: if the table is locked, the warning is delayed and not the emit.
Answer InCopy() {
  Oid table = pg::FindOurRelation("identity");
  if (OidIsValid(table) && !ConditionalLockRelationOid(table, AccessShareLock)) {
    return Answer::kNotNow;
  }
  Relation identity = OidIsValid(table) ? try_table_open(table, NoLock) : nullptr;
  if (identity == nullptr) {
    return Answer::kOwn;
  }
  bool copy = false;
  TableScanDesc scan = pg::BeginScan(identity, SnapshotSelf);
  for (HeapTuple row = heap_getnext(scan, ForwardScanDirection); row != nullptr;
       row = heap_getnext(scan, ForwardScanDirection)) {
    copy = copy || !IsOurs(row, RelationGetDescr(identity));
  }
  table_endscan(scan);
  table_close(identity, AccessShareLock);
  return copy ? Answer::kCopy : Answer::kOwn;
}

}  // namespace

void WarnInCopy() {
  static bool looked = false;
  if (looked) {
    return;
  }
  const Answer answer = InCopy();
  looked = answer != Answer::kNotNow;
  if (answer == Answer::kCopy) {
    ereport(WARNING,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("this database is a copy: events are kept, and none is published before outbox.adopt()"),
             errdetail("outbox_internal.identity names another server, database or outbox.instance."),
             errhint("The owner of the extension has it publish by SELECT outbox.adopt(), what was emitted until "
                     "then too.")));
  }
}

}  // namespace outbox::emit
