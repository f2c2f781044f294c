#include "pg/identity.h"

#include "base/version.h"
#include "pg/owner.h"
#include "pg/schemas.h"
#include "pg/server_versions.h"
#include "pg/settings.h"
#include "pg/transaction.h"

extern "C" {
#include "catalog/namespace.h"
#include "storage/lmgr.h"
}

namespace outbox::pg {

namespace {

void Select(const char* query, int count, Oid* types, Datum* values) {
  RequirePinnedSearchPath();
  if (SPI_execute_with_args(query, count, types, values, nullptr, true, 0) != SPI_OK_SELECT) {
    ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("unexpected result of a query of outbox")));
  }
}

// As the columns of outbox_internal.identity.
void OwnIdentity(Datum* values) {
  values[0] = Int64GetDatum(static_cast<int64>(GetSystemIdentifier()));
  values[1] = ObjectIdGetDatum(MyDatabaseId);
  values[2] = CStringGetTextDatum(settings.instance != nullptr ? settings.instance : "");
}

// One by whomever. The snapshot of a transaction in REPEATABLE READ may be older. A query would keep the index locked:
// who locks the table after that and who reindexes it would wait for each other.
bool HasIdentity(Oid identity) {
  Relation table = table_open(identity, AccessShareLock);
  ::Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
  TableScanDesc scan = BeginScan(table, snapshot);
  const bool found = heap_getnext(scan, ForwardScanDirection) != nullptr;
  table_endscan(scan);
  UnregisterSnapshot(snapshot);
  table_close(table, AccessShareLock);
  return found;
}

void InsertIdentity(const char* schema) {
  Oid types[] = {INT8OID, OIDOID, TEXTOID};
  Datum values[3];
  OwnIdentity(values);
  if (SPI_execute_with_args(psprintf("WITH settled AS (INSERT INTO %s.identity (system_identifier, database, instance) "
                                     "VALUES ($1, $2, $3) RETURNING system_identifier, database) "
                                     "INSERT INTO %s.origin (system_identifier, database) "
                                     "SELECT s.system_identifier, s.database FROM settled s",
                                     schema, schema),
                            3, types, values, nullptr, false, 0) != SPI_OK_INSERT) {
    ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not write outbox_internal.identity")));
  }
}

// Those who settle it come one by one: two who find none would both insert one.
void Settle(bool wait) {
  SPI_connect();
  // The first event of an extension that is not updated yet settles it, too.
  const Oid identity = FindOurRelation("identity");
  const char* schema = get_namespace_name(get_rel_namespace(identity));
  constexpr LOCKMODE kSettles = ShareRowExclusiveLock;
  AsOwner(OwnerOf(identity), {}, [&] {
    if (wait && !HasIdentity(identity)) {
      LockRelationOid(identity, kSettles);
    } else if (wait || !ConditionalLockRelationOid(identity, kSettles)) {
      return;
    }
    if (!HasIdentity(identity)) {
      const bool pushed = !ActiveSnapshotSet();
      if (pushed) {
        PushActiveSnapshot(GetTransactionSnapshot());
      }
      InsertIdentity(schema);
      if (pushed) {
        PopActiveSnapshot();
      }
    }
  });
  SPI_finish();
}

}  // namespace

void SettleIdentity() {
  Settle(true);
}

void SettleIdentityUnlessAnotherDoes() {
  Settle(false);
}

bool SubscribesToOutbox() {
  Select(
      "SELECT FROM pg_catalog.pg_subscription s JOIN pg_catalog.pg_subscription_rel r "
      "ON r.srsubid = s.oid JOIN pg_catalog.pg_class c ON c.oid = r.srrelid "
      "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
      "WHERE s.subenabled AND n.nspname IN ('outbox', 'outbox_internal') LIMIT 1",
      0, nullptr, nullptr);
  return SPI_processed > 0;
}

char* HomeText() {
  return psprintf(INT64_FORMAT "/%u", static_cast<int64>(GetSystemIdentifier()), MyDatabaseId);
}

namespace {

// Column `number` of the first row of SPI's last result; NULL is 0.
int64 FirstInt64(int number) {
  bool null = true;
  Datum value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, number, &null);
  return null ? 0 : DatumGetInt64(value);
}

}  // namespace

Identities CountIdentities() {
  Oid types[] = {INT8OID, OIDOID, TEXTOID};
  Datum values[3];
  OwnIdentity(values);
  Select(
      "SELECT count(*), count(*) FILTER (WHERE system_identifier = $1 "
      "AND database = $2 AND instance = $3) FROM outbox_internal.identity",
      3, types, values);
  return {FirstInt64(1), FirstInt64(2)};
}

Installation FindInstallation() {
  Installation installation = {Presence::kAbsent, InvalidOid, ""};
  Select(
      "SELECT e.extversion, c.relowner::int8 "
      "FROM pg_catalog.pg_extension e, pg_catalog.pg_class c, pg_catalog.pg_namespace n "
      "WHERE e.extname = 'outbox' AND n.nspname IN ('outbox', 'outbox_internal') "
      "AND c.relnamespace = n.oid AND c.relname = 'log' ORDER BY n.nspname DESC LIMIT 1",
      0, nullptr, nullptr);
  if (SPI_processed == 0) {
    return installation;
  }
  char* version = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
  strlcpy(installation.version, version != nullptr ? version : "", sizeof(installation.version));
  installation.owner = static_cast<Oid>(FirstInt64(2));
  if (strcmp(installation.version, kVersion) != 0) {
    installation.presence = Presence::kOtherVersion;
    return installation;
  }
  AsOwner(installation.owner, {}, [&installation] {
    const Identities identities = CountIdentities();
    installation.presence = identities.all == 0    ? Presence::kUnused
                            : identities.IsInUse() ? Presence::kHere
                                                   : Presence::kForeign;
  });
  return installation;
}

}  // namespace outbox::pg
