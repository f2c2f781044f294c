#include "pg/own_extension.h"

extern "C" {
#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_extension.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
}

namespace outbox::pg {

OwnExtension ReadOwnExtension() {
  Relation extensions = table_open(ExtensionRelationId, AccessShareLock);
  ScanKeyData key;
  ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum("outbox"));
  SysScanDesc scan = systable_beginscan(extensions, ExtensionNameIndexId, true, nullptr, 1, &key);
  HeapTuple tuple = systable_getnext(scan);
  OwnExtension own;
  if (HeapTupleIsValid(tuple)) {
    bool null = true;
    const Datum version = heap_getattr(tuple, Anum_pg_extension_extversion, RelationGetDescr(extensions), &null);
    own = {reinterpret_cast<Form_pg_extension>(GETSTRUCT(tuple))->extowner, null ? "" : TextDatumGetCString(version)};
  }
  systable_endscan(scan);
  table_close(extensions, AccessShareLock);
  return own;
}

}  // namespace outbox::pg
