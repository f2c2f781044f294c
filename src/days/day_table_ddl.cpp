#include "days/day_table_ddl.h"

#include "base/fault_point.h"
#include "pg/log_line.h"
#include "pg/owner.h"
#include "pg/schemas.h"

extern "C" {
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "commands/tablecmds.h"
#include "commands/tablespace.h"
#include "lib/stringinfo.h"
#include "nodes/makefuncs.h"
#include "parser/parser.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
}

namespace outbox::days {

namespace {

bool dropping_day_table = false;

// The log's: an extension that is not updated yet has it beside what users see.
Oid SchemaOfDayTables() {
  const Oid log = pg::FindOurRelation("log");
  return OidIsValid(log) ? get_rel_namespace(log) : InvalidOid;
}

// Storage of a day table. Rows are inserted, read and dropped as a whole day: no room for updates, and autovacuum would
// only write hint bits and freeze what is gone in a week. (Against wraparound it runs all the same.)
constexpr const char* kLogStorage =
    " WITH (fillfactor = 100, autovacuum_enabled = false, toast.autovacuum_enabled = false)";
constexpr const char* kPlainStorage = " WITH (fillfactor = 100, autovacuum_enabled = false)";

const char* IndexColumns(DayTableKind kind) {
  switch (kind) {
    case DayTableKind::kLog:
      return "xid";
    case DayTableKind::kProgress:
      return "route_id, lane, side, at";
    case DayTableKind::kTick:
      return "at";
    case DayTableKind::kOutcome:
      return "id";
    case DayTableKind::kEmitKey:
      return "digest";
  }
  pg_unreachable();
}

void DayText(int32 day, char separator, char* text, size_t size) {
  int year = 0;
  int month = 0;
  int mday = 0;
  j2date(day + UNIX_EPOCH_JDATE, &year, &month, &mday);
  if (separator == '\0') {
    pg_snprintf(text, size, "%04d%02d%02d", year, month, mday);
  } else {
    pg_snprintf(text, size, "%04d%c%02d%c%02d", year, separator, month, separator, mday);
  }
}

// Runs one utility command as a part of a larger one: as such it fires no event trigger (ProcessUtilitySlow asks
// isCompleteQuery), on any version and whatever the trigger's firing mode.
void RunSubcommand(const char* sql) {
  List* parsed = raw_parser(sql, RAW_PARSE_DEFAULT);
  PlannedStmt* statement = makeNode(PlannedStmt);
  statement->commandType = CMD_UTILITY;
  statement->utilityStmt = linitial_node(RawStmt, parsed)->stmt;
  ProcessUtility(statement, sql, false, PROCESS_UTILITY_SUBCOMMAND, nullptr, nullptr, None_Receiver, nullptr);
  CommandCounterIncrement();
}

// Default privileges of the owner, if any, are not meant for the log.
void RevokeDefaultPrivileges(const char* name) {
  HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(get_relname_relid(name, SchemaOfDayTables())));
  if (!HeapTupleIsValid(tuple)) {
    return;
  }
  bool null = true;
  Datum rights = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relacl, &null);
  Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->relowner;
  List* grantees = NIL;
  if (!null) {
    Acl* acl = DatumGetAclP(rights);
    for (int i = 0; i < ACL_NUM(acl); i++) {
      if (ACL_DAT(acl)[i].ai_grantee != owner) {
        grantees = list_append_unique_oid(grantees, ACL_DAT(acl)[i].ai_grantee);
      }
    }
  }
  ReleaseSysCache(tuple);
  ListCell* cell;
  foreach (cell, grantees) {
    Oid grantee = lfirst_oid(cell);
    const char* role = grantee == ACL_ID_PUBLIC ? "PUBLIC" : quote_identifier(GetUserNameFromId(grantee, false));
    RunSubcommand(
        psprintf("REVOKE ALL ON TABLE %s.%s FROM %s CASCADE", get_namespace_name(SchemaOfDayTables()), name, role));
  }
}

// Another relation of that name: a day that was detached, or something that a user made. Emitters and workers need
// the name, so it makes room, and is told of once; outbox.doctor() says what may be done with it.
void MakeRoom(const char* name) {
  const Oid schema = SchemaOfDayTables();
  const Oid other = get_relname_relid(name, schema);
  if (!OidIsValid(other)) {
    return;
  }
  if (!ConditionalLockRelationOid(other, AccessExclusiveLock)) {
    ereport(ERROR, (errcode(ERRCODE_LOCK_NOT_AVAILABLE),
                    errmsg("relation \"%s\" has the name of a day table, and another session is using it", name),
                    errdetail("It is not a partition, and would be renamed."),
                    errhint("Wait until it is not used; its owner may rename or drop %s.%s.",
                            get_namespace_name(schema), name)));
  }
  char aside[NAMEDATALEN];
  pg_snprintf(aside, NAMEDATALEN, "%s_aside", name);
  for (int number = 2; OidIsValid(get_relname_relid(aside, schema)); number++) {
    pg_snprintf(aside, NAMEDATALEN, "%s_aside_%d", name, number);
  }
  const char kind = get_rel_relkind(other);
  RenameRelationInternal(other, aside, false, kind == RELKIND_INDEX || kind == RELKIND_PARTITIONED_INDEX);
  CommandCounterIncrement();
  ereport(LOG, (errmsg("outbox: relation \"%s\" had the name of a day table; it is \"%s\" now", name, aside),
                errhint("It is no part of the log. outbox.doctor() says what may be done with it."),
                pg::LogEvent("put_aside", {{"table", name}, {"now", aside}})));
}

const char* IndexSuffix(DayTableKind kind) {
  switch (kind) {
    case DayTableKind::kLog:
      return "xid";
    case DayTableKind::kProgress:
    case DayTableKind::kTick:
      return "at";
    case DayTableKind::kOutcome:
      return "id";
    case DayTableKind::kEmitKey:
      return "digest";
  }
  pg_unreachable();
}

// What a partition does not get of its parent by itself.
struct Inherited {
  const char* tablespace;  // a clause, or empty
  bool full_identity;      // the whole row stands for one where the table is published, see schema/97_published.sql
};

void RunDdl(DayTableKind kind, int32 day, const Inherited& inherited) {
  const char* tablespace = inherited.tablespace;
  char name[NAMEDATALEN];
  char first[32];
  char last[32];
  const char* parent = DayTableParentName(kind);
  const char* schema = get_namespace_name(SchemaOfDayTables());
  DayTableName(kind, day, name);
  DayText(day, '-', first, sizeof(first));
  DayText(day + 1, '-', last, sizeof(last));

  MakeRoom(name);
  MakeRoom(psprintf("%s_%s", name, IndexSuffix(kind)));
  if (kind == DayTableKind::kOutcome) {
    MakeRoom(psprintf("%s_acknowledged", name));
  }
  StringInfoData sql;
  initStringInfo(&sql);
  appendStringInfo(&sql, "CREATE TABLE %s.%s (LIKE %s.%s INCLUDING STORAGE INCLUDING COMPRESSION) USING heap%s%s",
                   schema, name, schema, parent, kind == DayTableKind::kLog ? kLogStorage : kPlainStorage, tablespace);
  RunSubcommand(sql.data);
  RevokeDefaultPrivileges(name);
  resetStringInfo(&sql);
  appendStringInfo(&sql, "CREATE INDEX %s_%s ON %s.%s USING btree (%s)%s", name, IndexSuffix(kind), schema, name,
                   IndexColumns(kind), tablespace);
  RunSubcommand(sql.data);
  if (kind == DayTableKind::kOutcome) {
    resetStringInfo(&sql);
    appendStringInfo(&sql,
                     "CREATE INDEX %s_acknowledged ON %s.%s USING btree (run, acknowledged)%s WHERE run IS NOT NULL",
                     name, schema, name, tablespace);
    RunSubcommand(sql.data);
  }
  resetStringInfo(&sql);
  appendStringInfo(&sql, "COMMENT ON TABLE %s.%s IS 'day table of %s.%s: %s in UTC'", schema, name, schema, parent,
                   first);
  RunSubcommand(sql.data);
  if (kind == DayTableKind::kLog) {  // as in schema/97_statistics.sql; no partition gets it of its parent
    RunSubcommand(
        psprintf("ALTER TABLE %s.%s ALTER COLUMN payload SET STATISTICS 0, ALTER COLUMN headers SET "
                 "STATISTICS 0",
                 schema, name));
  }
  if (inherited.full_identity) {
    RunSubcommand(psprintf("ALTER TABLE %s.%s REPLICA IDENTITY FULL", schema, name));
  }
  resetStringInfo(&sql);
  // An offset in the text makes the bounds independent of the session's time zone.
  appendStringInfo(&sql,
                   "ALTER TABLE %s.%s ATTACH PARTITION %s.%s FOR VALUES FROM ('%s 00:00:00+00') TO ('%s 00:00:00+00')",
                   schema, parent, schema, name, first, last);
  RunSubcommand(sql.data);
  // (An extension that is not updated yet has no such function, and its emitters need their day all the same.)
  oidvector* no_arguments = buildoidvector(nullptr, 0);
  if (kind == DayTableKind::kLog &&
      SearchSysCacheExists3(PROCNAMEARGSNSP, CStringGetDatum("refuse_loss"), PointerGetDatum(no_arguments),
                            ObjectIdGetDatum(SchemaOfDayTables()))) {
    // Statement triggers of the parent do not come with ATTACH: see schema/27_loss.sql.
    static const char* const triggers[][3] = {{"log_loss", "BEFORE UPDATE OR DELETE OR TRUNCATE", ""},
                                              {"log_loss_deleted", "AFTER DELETE", " REFERENCING OLD TABLE AS gone"},
                                              {"log_loss_updated", "AFTER UPDATE", " REFERENCING OLD TABLE AS gone"}};
    for (const auto& [trigger, when, rows] : triggers) {
      RunSubcommand(psprintf("CREATE TRIGGER %s %s ON %s.%s%s FOR EACH STATEMENT EXECUTE FUNCTION %s.refuse_loss()",
                             trigger, when, schema, name, rows, schema));
      RunSubcommand(psprintf("ALTER TABLE %s.%s ENABLE ALWAYS TRIGGER %s", schema, name, trigger));
    }
  }
  pfree(sql.data);
}

}  // namespace

int32 DayOfMicros(int64 unix_micros) {
  int64 day = unix_micros / kDayMicros;
  return static_cast<int32>(unix_micros < 0 && unix_micros % kDayMicros != 0 ? day - 1 : day);
}

int64 DayStartMicros(int32 day) {
  return day * kDayMicros;
}

const char* DayTableParentName(DayTableKind kind) {
  switch (kind) {
    case DayTableKind::kLog:
      return "log";
    case DayTableKind::kProgress:
      return "progress";
    case DayTableKind::kTick:
      return "tick";
    case DayTableKind::kOutcome:
      return "outcome";
    case DayTableKind::kEmitKey:
      return "emit_key";
  }
  pg_unreachable();
}

void DayTableName(DayTableKind kind, int32 day, char* name) {
  char digits[32];
  DayText(day, '\0', digits, sizeof(digits));
  pg_snprintf(name, NAMEDATALEN, "%s_%s", DayTableParentName(kind), digits);
}

bool DayOfTableName(DayTableKind kind, const char* name, int32* day) {
  const char* parent = DayTableParentName(kind);
  size_t size = strlen(parent);
  if (strncmp(name, parent, size) != 0 || name[size] != '_' || strlen(name + size + 1) != 8 ||
      strspn(name + size + 1, "0123456789") != 8) {
    return false;
  }
  int digits = atoi(name + size + 1);
  int32 candidate = date2j(digits / 10000, digits / 100 % 100, digits % 100) - UNIX_EPOCH_JDATE;
  char back[NAMEDATALEN];
  DayTableName(kind, candidate, back);  // refuses 20261399
  if (strcmp(name, back) != 0) {
    return false;
  }
  *day = candidate;
  return true;
}

Oid DayTableParent(DayTableKind kind) {
  return pg::FindOurRelation(DayTableParentName(kind));
}

Oid FindDayTable(DayTableKind kind, int32 day) {
  char name[NAMEDATALEN];
  DayTableName(kind, day, name);
  const Oid schema = SchemaOfDayTables();
  Oid table = OidIsValid(schema) ? get_relname_relid(name, schema) : InvalidOid;
  return OidIsValid(table) && get_rel_relispartition(table) ? table : InvalidOid;
}

Oid SpareTable() {
  return pg::FindOurRelation("log_spare");
}

Oid SpareKeyTable() {
  return pg::FindOurRelation("emit_key_spare");
}

bool CreateDayTable(DayTableKind kind, int32 day) {
  Oid parent = DayTableParent(kind);
  if (!OidIsValid(parent)) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_SCHEMA_NAME), errmsg("extension \"outbox\" is not installed here"),
                    errhint("Run CREATE EXTENSION outbox in this database.")));
  }
  if (OidIsValid(FindDayTable(kind, day))) {
    return false;
  }
  LockRelationOid(parent, ShareUpdateExclusiveLock);
  if (OidIsValid(FindDayTable(kind, day))) {
    return false;  // another process was faster
  }
  Relation relation = table_open(parent, NoLock);
  Oid owner = relation->rd_rel->relowner;
  // ATTACH leaves a table where it is, so the parent's tablespace has to be named here.
  char* space =
      OidIsValid(relation->rd_rel->reltablespace) ? get_tablespace_name(relation->rd_rel->reltablespace) : nullptr;
  const Inherited inherited = {space != nullptr ? psprintf(" TABLESPACE %s", quote_identifier(space)) : "",
                               relation->rd_rel->relreplident == REPLICA_IDENTITY_FULL};
  table_close(relation, NoLock);

  // The parent decides in which tablespace day tables are, not the session's setting.
  // Where min_parallel_table_scan_size is low an empty table has its index made by several processes, which needs
  // shared memory of its own: events would wait for room in /dev/shm.
  static constexpr pg::PinnedSetting kPinned[] = {
      {"search_path", pg::kSearchPath}, {"default_tablespace", ""}, {"max_parallel_maintenance_workers", "0"}};
  pg::AsOwner(owner, kPinned, [kind, day, inherited] {
    const bool pushed = !ActiveSnapshotSet();
    if (pushed) {
      PushActiveSnapshot(GetTransactionSnapshot());
    }
    RunDdl(kind, day, inherited);
    OUTBOX_FAULT_POINT("daytable.uncommitted");
    if (pushed) {
      PopActiveSnapshot();
    }
  });
  return true;
}

void EnsureDayTables(DayTableKind kind, int64 first, int64 last) {
  for (const int64 micros : {first, last}) {
    if (CreateDayTable(kind, DayOfMicros(micros))) {
      CommandCounterIncrement();
    }
  }
}

// No TRUNCATE before it: since 14 a dropped file gives its space back at commit even where another session has it open,
// and a TRUNCATE would fire triggers and travel through publications FOR ALL TABLES.
void DropDayTable(DayTableKind kind, int32 day) {
  char name[NAMEDATALEN];
  DayTableName(kind, day, name);
  dropping_day_table = true;
  PG_TRY();
  { RunSubcommand(psprintf("DROP TABLE %s.%s RESTRICT", get_namespace_name(SchemaOfDayTables()), name)); }
  PG_FINALLY();
  { dropping_day_table = false; }
  PG_END_TRY();
}

bool DroppingDayTable() {
  return dropping_day_table;
}

}  // namespace outbox::days
