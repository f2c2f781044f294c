#include "inbox/ring.h"

#include "pg/schemas.h"

extern "C" {
#include "catalog/namespace.h"
}

namespace outbox::inbox {

namespace {

constexpr int64 kMillisMicros = 1000;
// 2020-01-01 and 2120-01-01 UTC. Another time is a mistake or a random number, and would never expire, or at once.
constexpr int64 kEraBegins = int64{1577836800} * USECS_PER_SEC;
constexpr int64 kEraEnds = int64{4733510400} * USECS_PER_SEC;

}  // namespace

bool TimeOfId(const pg_uuid_t* id, int64* micros) {
  if (id->data[6] >> 4 != 7 || id->data[8] >> 6 != 2) {
    return false;
  }
  int64 millis = 0;
  for (int i = 0; i < 6; i++) {
    millis = millis << 8 | id->data[i];
  }
  *micros = millis * kMillisMicros;
  return *micros >= kEraBegins && *micros < kEraEnds;
}

pg_uuid_t LeastIdOf(int64 micros) {
  pg_uuid_t id = {};
  const int64 millis = (Min(Max(micros, kEraBegins), kEraEnds) + kMillisMicros - 1) / kMillisMicros;
  for (int i = 0; i < 6; i++) {
    id.data[i] = static_cast<unsigned char>(millis >> (40 - 8 * i));
  }
  id.data[6] = 0x70;
  id.data[8] = 0x80;
  return id;
}

void TableName(int table, char* name) {
  if (table < kDayTables) {
    pg_snprintf(name, NAMEDATALEN, "inbox_day_%02d", table);
  } else {
    pg_snprintf(name, NAMEDATALEN, "inbox_undated_%c", table == kUndatedA ? 'a' : 'b');
  }
}

Oid InboxTable(const char* name) {
  const Oid schema = get_namespace_oid(pg::kInternalSchema, true);
  const Oid table = OidIsValid(schema) ? get_relname_relid(name, schema) : InvalidOid;
  if (!OidIsValid(table)) {
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_SCHEMA_NAME), errmsg("the inbox of extension \"outbox\" is not here"),
             errdetail("There is no table %s.%s.", pg::kInternalSchema, name),
             errhint("The owner of the database runs CREATE EXTENSION outbox or ALTER EXTENSION outbox UPDATE in "
                     "it.")));
  }
  return table;
}

Oid TableOid(int table) {
  char name[NAMEDATALEN];
  TableName(table, name);
  return InboxTable(name);
}

}  // namespace outbox::inbox
