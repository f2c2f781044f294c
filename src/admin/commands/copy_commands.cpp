#include "admin/commands/copy_commands.h"

#include <string>

#include "admin/commands/own_relations.h"
#include "admin/common/query.h"
#include "admin/guard/by_hand.h"
#include "emit/replica_role.h"
#include "pg/guard.h"
#include "pg/rights.h"
#include "pg/schemas.h"

extern "C" {
#include "commands/extension.h"
#include "nodes/parsenodes.h"
}

namespace outbox::admin {

namespace {

using pg::Guard;
using pg::UserError;

// Whether a dump may bring rows of this table into an outbox that is in use: events, which are kept apart.
bool MayComeInto(const char* name) {
  return strcmp(name, "log") == 0 || strncmp(name, "log_", 4) == 0 || strcmp(name, "foreign_event") == 0 ||
         strcmp(name, "event") == 0 || strcmp(name, "outboxevent") == 0 || strcmp(name, "audit") == 0;
}

UserError RestoredIntoUse(const char* named_by) {
  return {ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot restore into an outbox that is in use",
          std::string(named_by) +
              " names this very database: it is used already, or the dump was made of it, or of one with the same "
              "number on another server that was made of the same files. What a dump says of positions and of what "
              "waits is not of now.",
          "Restore into a new database, and keep applications away until it is restored; ALTER DATABASE ... "
          "RENAME TO gives it the name of the old one. Where this is a new one, CREATE DATABASE another: it has "
          "another number."};
}

// Positions, ticks, owners: lanes that work here would take those of a dump for their own.
void CheckRestore(Oid relation) {
  if (Guard([relation] { return InSchemaInUse(relation) && !MayComeInto(get_rel_name(relation)); }) &&
      IsSettledHere()) {
    throw RestoredIntoUse("outbox_internal.identity");
  }
}

int64 SwitchForeignKeysOff(Node*, bool) {
  const int guc_level = NewGUCNestLevel();
  (void)set_config_option("session_replication_role", "replica", PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
                          false);
  return guc_level;
}

// (After an error the transaction's end does it.)
void SwitchForeignKeysOn(Node*, int64 guc_level, bool done) {
  if (done) {
    AtEOXact_GUC(false, static_cast<int>(guc_level));
  }
}

}  // namespace

const UtilityScope kWithoutForeignKeys = {SwitchForeignKeysOff, SwitchForeignKeysOn};

void CheckCopy(Node* statement) {
  const auto* copy = reinterpret_cast<CopyStmt*>(statement);
  const Oid relation = copy->is_from ? FindRelation(copy->relation) : InvalidOid;
  if (OidIsValid(relation)) {
    CheckRestore(relation);
  }
  if (OidIsValid(relation) && Guard([relation] { return emit::InsertsWouldBeLost(relation); })) {
    throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    "cannot copy into a view of events while session_replication_role is replica",
                    "COPY fires no trigger of a view then, and the events would be lost.",
                    "Use INSERT or outbox.emit_many(), or set session_replication_role to origin."};
  }
}

void CheckRestoredLanes(Node* statement) {
  const auto* copy = reinterpret_cast<CopyStmt*>(statement);
  const Oid relation = strcmp(copy->relation->relname, "lane") == 0 ? FindRelation(copy->relation) : InvalidOid;
  if (OidIsValid(relation) && Guard([relation] { return InSchemaInUse(relation); }) &&
      !RunSql(Access::kWrite, "SELECT FROM outbox_internal.lane WHERE home = outbox_internal.home() LIMIT 1").empty()) {
    throw RestoredIntoUse("outbox_internal.lane");
  }
}

bool IsRestored(Node* statement) {
  auto* copy = reinterpret_cast<CopyStmt*>(statement);
  // (A WHERE clause calls functions of whoever wrote it, which would write past the keys and triggers of any table.)
  if (!copy->is_from || copy->whereClause != nullptr || copy->relation == nullptr ||
      !pg::IsOurSchema(copy->relation->schemaname) || !OidIsValid(get_extension_oid("outbox", true))) {
    return false;
  }
  static const char* const keyed[] = {"lane", "lane_start", "parked", "side_lane", "side_topic", "pause"};
  for (const char* name : keyed) {
    if (strcmp(copy->relation->relname, name) == 0) {
      const Oid relation = FindRelation(copy->relation);
      return OidIsValid(relation) && pg::OwnsObject(RelationRelationId, relation);
    }
  }
  return false;
}

}  // namespace outbox::admin
