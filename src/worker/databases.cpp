#include "worker/databases.h"

#include "pg/shared.h"
#include "pg/transaction.h"

extern "C" {
#include "catalog/pg_database.h"
#include "storage/procarray.h"
}

namespace outbox::worker {

namespace {

void ReadInto(DatabaseList* into, MemoryContext context) {
  DatabaseList list = {0, nullptr, 0, nullptr, nullptr};
  int room = 64;
  list.all = static_cast<Oid*>(MemoryContextAlloc(context, room * sizeof(Oid)));
  list.eligible = static_cast<Oid*>(MemoryContextAlloc(context, room * sizeof(Oid)));
  list.eligible_names = static_cast<NameData*>(MemoryContextAlloc(context, room * sizeof(NameData)));
  Relation relation = table_open(DatabaseRelationId, AccessShareLock);
  TableScanDesc scan = table_beginscan_catalog(relation, 0, nullptr);
  for (HeapTuple tuple = heap_getnext(scan, ForwardScanDirection); HeapTupleIsValid(tuple);
       tuple = heap_getnext(scan, ForwardScanDirection)) {
    Form_pg_database row = reinterpret_cast<Form_pg_database>(GETSTRUCT(tuple));
    if (list.all_count == room) {
      room *= 2;
      list.all = static_cast<Oid*>(repalloc(list.all, room * sizeof(Oid)));
      list.eligible = static_cast<Oid*>(repalloc(list.eligible, room * sizeof(Oid)));
      list.eligible_names = static_cast<NameData*>(repalloc(list.eligible_names, room * sizeof(NameData)));
    }
    list.all[list.all_count++] = row->oid;
    // A connection limit of -2 marks a database whose DROP was interrupted.
    if (!row->datistemplate && row->datallowconn && row->datconnlimit != -2) {
      list.eligible_names[list.eligible_count] = row->datname;
      list.eligible[list.eligible_count++] = row->oid;
    }
  }
  table_endscan(scan);
  table_close(relation, AccessShareLock);
  *into = list;
}

}  // namespace

DatabaseList ReadDatabases(MemoryContext context) {
  DatabaseList list = {};
  pg::InTransaction(context, [&] { ReadInto(&list, context); });
  return list;
}

bool Contains(const Oid* oids, int count, Oid wanted) {
  for (int i = 0; i < count; i++) {
    if (oids[i] == wanted) {
      return true;
    }
  }
  return false;
}

void LiftDeadBars() {
  for (int i = 0; i < pg::Shared()->max_databases; i++) {
    int pid = pg::Databases()[i].barred_by;
    if (pid != 0 && BackendPidGetProc(pid) == nullptr) {
      LWLockAcquire(pg::Shared()->lock, LW_EXCLUSIVE);
      if (pg::Databases()[i].barred_by == pid) {
        pg::Databases()[i].barred_by = 0;
      }
      LWLockRelease(pg::Shared()->lock);
    }
  }
}

}  // namespace outbox::worker
