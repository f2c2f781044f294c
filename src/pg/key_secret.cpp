#include "pg/key_secret.h"

#include "base/order_key.h"
#include "pg/schemas.h"
#include "pg/server_versions.h"

extern "C" {
#include "access/heapam.h"
#include "access/table.h"
#include "utils/snapmgr.h"
#include "utils/uuid.h"
}

namespace outbox::pg {

namespace {

Oid loaded_from = InvalidOid;

SipHash::Key KeyOf(const pg_uuid_t& secret) {
  SipHash::Key key;
  static_assert(sizeof key == UUID_LEN);
  memcpy(&key, secret.data, UUID_LEN);
  return key;
}

// What is there by now, also for a transaction whose snapshot is older. Without a row (somebody has deleted it) the
// secret is none: keys go on being keys.
SipHash::Key Read(Relation table) {
  SipHash::Key key;
  ::Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
  TableScanDesc scan = BeginScan(table, snapshot);
  if (HeapTuple row = heap_getnext(scan, ForwardScanDirection); row != nullptr) {
    bool isnull = false;
    const Datum secret = heap_getattr(row, 1, RelationGetDescr(table), &isnull);
    key = isnull ? key : KeyOf(*DatumGetUUIDP(secret));
  }
  table_endscan(scan);
  UnregisterSnapshot(snapshot);
  return key;
}

}  // namespace

void LoadKeySecret() {
  const Oid oid = FindOurRelation("key_secret");
  if (oid == loaded_from) {
    return;
  }
  SipHash::Key key;
  if (OidIsValid(oid)) {
    Relation table = table_open(oid, AccessShareLock);
    key = Read(table);
    table_close(table, AccessShareLock);
  }
  UseKeySecret(key);
  loaded_from = oid;
}

}  // namespace outbox::pg
