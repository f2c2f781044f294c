#include "admin/guard/firing.h"

#include <string>

#include "admin/common/query.h"
#include "admin/guard/loss.h"
#include "pg/schemas.h"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
}

namespace outbox::admin {

using pg::Guard;

void SetFiring(Oid relation, Oid trigger, bool always) {
  Relation triggers = table_open(TriggerRelationId, RowExclusiveLock);
  ScanKeyData key;
  ScanKeyInit(&key, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(trigger));
  SysScanDesc scan = systable_beginscan(triggers, TriggerOidIndexId, true, nullptr, 1, &key);
  HeapTuple found = systable_getnext(scan);
  if (HeapTupleIsValid(found)) {
    HeapTuple changed = heap_copytuple(found);
    reinterpret_cast<Form_pg_trigger>(GETSTRUCT(changed))->tgenabled =
        always ? TRIGGER_FIRES_ALWAYS : TRIGGER_FIRES_ON_REPLICA;
    CatalogTupleUpdate(triggers, &changed->t_self, changed);
    heap_freetuple(changed);
  }
  systable_endscan(scan);
  table_close(triggers, RowExclusiveLock);
  CacheInvalidateRelcacheByRelid(relation);
  CommandCounterIncrement();
}

void LetGuardsFire(Oid table) {
  // (An extension that is not updated yet has no such view.)
  if (!StateTablesExist() || !Guard([] { return OidIsValid(pg::FindOurRelation("wrong_guard")); })) {
    return;
  }
  for (const Row& row : RunSql(Access::kWrite,
                               "SELECT trigger, trigger_name <> 'ignore_replicated' FROM outbox_internal.wrong_guard "
                               "WHERE relation = $1::oid AND trigger_name <> 'log_guard'",
                               {Cell(std::to_string(table))})) {
    const Oid trigger = static_cast<Oid>(Number(row[0]));
    const bool always = row[1] == "t";
    Guard([&] { SetFiring(table, trigger, always); });
  }
}

}  // namespace outbox::admin
