#include "admin/commands/table_commands.h"

#include <string>

#include "admin/commands/own_relations.h"
#include "admin/commands/trigger_commands.h"
#include "admin/guard/by_hand.h"
#include "admin/guard/firing.h"
#include "admin/guard/loss.h"
#include "days/day_table_ddl.h"
#include "pg/guard.h"
#include "pg/schemas.h"
#include "pg/settings.h"
#include "pg/transaction.h"

extern "C" {
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
}

namespace outbox::admin {

namespace {

using pg::Guard;
using pg::UserError;

// --- ALTER TABLE ---

enum class Altered : unsigned char {
  kShape,     // what is counted on
  kUnlogged,  // a crash leaves nothing
  kDetached,  // a day goes
  kAttached,  // a day comes
  kIdentity,  // by which a published row is known
  kGuard,     // a trigger of outbox, or all of them
  kStorage,   // whether a value goes out of line
};

struct AlterRule {
  AlterTableType form;
  Altered what;
  const char* words;  // "cannot WORDS TABLE"
};

// Forms that are not here change nothing that is counted on: statistics, tablespace, owner, SET LOGGED, ...
constexpr AlterRule kAlterRules[] = {
    {AT_AddColumn, Altered::kShape, "add a column to"},
    {AT_DropColumn, Altered::kShape, "drop a column of"},
    {AT_AlterColumnType, Altered::kShape, "change a column's type in"},
    {AT_ColumnDefault, Altered::kShape, "change a column's default in"},
    {AT_SetNotNull, Altered::kShape, "add a constraint to"},
    {AT_DropNotNull, Altered::kShape, "drop a constraint of"},
    {AT_AddConstraint, Altered::kShape, "add a constraint to"},
    {AT_DropConstraint, Altered::kShape, "drop a constraint of"},
    {AT_AddIndexConstraint, Altered::kShape, "add a constraint to"},
    {AT_AddIdentity, Altered::kShape, "change a column's default in"},
    {AT_DropIdentity, Altered::kShape, "change a column's default in"},
    {AT_EnableRowSecurity, Altered::kShape, "enable row security on"},
    {AT_ForceRowSecurity, Altered::kShape, "enable row security on"},
    {AT_SetIdentity, Altered::kShape, "change a column's default in"},
    {AT_AlterConstraint, Altered::kShape, "change a constraint of"},
    {AT_AddOf, Altered::kShape, "change the type of"},
    {AT_SetAccessMethod, Altered::kShape, "change the access method of"},
    {AT_AddInherit, Altered::kShape, "change the parent of"},
    {AT_ReplicaIdentity, Altered::kIdentity, "change the replica identity of"},
    {AT_SetUnLogged, Altered::kUnlogged, "make unlogged"},
    {AT_DetachPartition, Altered::kDetached, "detach"},
    {AT_AttachPartition, Altered::kAttached, "attach a partition to"},
    {AT_DisableTrig, Altered::kGuard, "switch off triggers of"},
    {AT_DisableTrigAll, Altered::kGuard, "switch off triggers of"},
    {AT_DisableTrigUser, Altered::kGuard, "switch off triggers of"},
    {AT_EnableReplicaTrig, Altered::kGuard, "switch off triggers of"},
    {AT_SetStorage, Altered::kStorage, "set to PLAIN the storage of a column of"},
};

// By hand, to spare WAL: a crash would leave nothing in it.
void RefuseUnlogged(Oid table) {
  const std::string name = NameOf(table);
  if (pg::settings.allow_loss) {
    Warn("a crash will leave nothing in " + name, "It is not written to WAL any more.");
    NoteLoss("alter table " + name + " set unlogged", "");
    return;
  }
  throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot make " + name + " unlogged",
                  "A crash would leave nothing in it, and a standby has nothing of it.",
                  "Leave it as it is. To lose what it holds at the next crash: SET outbox.allow_loss = on."};
}

// A day of what lanes and operators have noted: positions, ticks, outcomes. (Days of the log answer for their events.)
bool IsDayOfNotes(Oid relation) {
  return IsOwnTable(relation) && get_rel_relispartition(relation) &&
         get_partition_parent(relation, true) != days::DayTableParent(days::DayTableKind::kLog);
}

// The locks that the command takes, and in its order, before the question: then no session adds to the answer.
void CheckDetach(Oid parent, const PartitionCmd* partition) {
  const Oid day = Guard([&] {
    Oid found = RangeVarGetRelid(partition->name, NoLock, true);
    if (OidIsValid(found) && !partition->concurrent) {
      LockRelationOid(parent, AccessExclusiveLock);
      LockRelationOid(found, AccessExclusiveLock);
    }
    return found;
  });
  if (OidIsValid(day) && Guard([day] { return IsDayOfNotes(day); })) {
    RefuseShape(day, "detach");
  } else if (OidIsValid(day)) {
    JudgeDetach(day);
  }
}

// Its rows were not written by emit(), or in another time: which of them lanes would ever read is chance. (A restore
// brings the days of a dump before the outbox is in use, and adopt() looks at their rows.)
void RefuseAttach(Oid parent, const std::string& words) {
  if (pg::settings.allow_loss || IsSettledHere()) {
    RefuseByHand(words + " " + NameOf(parent),
                 "Day tables are made by outbox itself. Rows of any other table have transaction ids that lanes may "
                 "be past: they would be sent at the wrong time, or never.",
                 "INSERT INTO outbox_internal.log SELECT * FROM ... keeps events in outbox_internal.foreign_event, and "
                 "SELECT outbox.adopt() sends them.");
  }
}

// Where it is published, PostgreSQL refuses to change a row that nothing stands for: workers would, too. (A dump brings
// the whole row for day tables, which have no key.)
void CheckReplicaIdentity(Oid table, const ReplicaIdentityStmt* identity, const char* words) {
  if (identity->identity_type != REPLICA_IDENTITY_FULL) {
    RefuseShape(table, words);
  }
}

// Of a table of somebody's own: one of outbox becomes its parent, and shows its rows; or a partition of it.
void CheckRelative(const AlterTableCmd* command) {
  if (command->subtype == AT_AddInherit) {
    CheckInherited(reinterpret_cast<const RangeVar*>(command->def));
  } else if (command->subtype == AT_AttachPartition) {
    const Oid part = FindAltered(reinterpret_cast<const PartitionCmd*>(command->def)->name);
    if (OidIsValid(part)) {
      RefuseShape(part, "change the parent of");
    }
  }
}

// Of any length; a column that is not there is PostgreSQL's error. Plain.
bool IsWide(Oid table, const char* column) {
  HeapTuple tuple = SearchSysCacheAttName(table, column);
  const bool wide = HeapTupleIsValid(tuple) && reinterpret_cast<Form_pg_attribute>(GETSTRUCT(tuple))->attlen < 0;
  if (HeapTupleIsValid(tuple)) {
    ReleaseSysCache(tuple);
  }
  return wide;
}

// What is never moved out of line makes a row that no page takes. (MAIN moves it as the last resort.)
void CheckStorage(Oid table, const AlterTableCmd* command, const char* words) {
  if (pg_strcasecmp(strVal(command->def), "plain") == 0 && Guard([=] { return IsWide(table, command->name); })) {
    RefuseShape(table, words);
  }
}

bool IsOwnSequence(Oid relation) {
  return InSchemaInUse(relation) && get_rel_relkind(relation) == RELKIND_SEQUENCE && OwnsRelation(relation) &&
         !pg::InOwnStatement();
}

// Switched on for logical replication alone: so is what ignores changes that come by it.
bool FiresAsItShould(const AlterTableCmd* command) {
  return command->subtype == AT_EnableReplicaTrig && strcmp(command->name, "ignore_replicated") == 0;
}

void CheckForm(Oid table, const AlterTableCmd* command) {
  for (const AlterRule& rule : kAlterRules) {
    if (rule.form != command->subtype) {
      continue;
    }
    switch (rule.what) {
      case Altered::kShape:
        RefuseShape(table, rule.words);
        break;
      case Altered::kUnlogged:
        RefuseUnlogged(table);
        break;
      case Altered::kDetached:
        CheckDetach(table, reinterpret_cast<const PartitionCmd*>(command->def));
        break;
      case Altered::kAttached:
        RefuseAttach(table, rule.words);
        break;
      case Altered::kIdentity:
        CheckReplicaIdentity(table, reinterpret_cast<const ReplicaIdentityStmt*>(command->def), rule.words);
        break;
      case Altered::kGuard:
        if (!FiresAsItShould(command)) {
          CheckGuard(table, command->name, rule.words);
        }
        break;
      case Altered::kStorage:
        CheckStorage(table, command, rule.words);
        break;
    }
  }
}

// The ceiling of the clock, and keys: the only form of ALTER SEQUENCE that comes as ALTER TABLE and loses something.
void CheckUnloggedSequence(const RangeVar* name, const AlterTableCmd* command) {
  const Oid sequence = command->subtype == AT_SetUnLogged ? FindRelation(name) : InvalidOid;
  if (OidIsValid(sequence) && Guard([sequence] { return IsOwnSequence(sequence); })) {
    RefuseUnlogged(sequence);
  }
}

// --- DROP TABLE of a day, DROP INDEX ---

// Those that the extension makes are called so: of day tables and spare tables by the table's name with one of these
// behind it, of others in full. (Others' indexes are theirs.)
constexpr const char* kDayIndexes[] = {"_xid", "_at", "_id", "_acknowledged", "_digest"};
constexpr const char* kIndexes[] = {"foreign_event_created_at_idx",
                                    "identity_one_idx",
                                    "adoption_one_idx",
                                    "inbox_kept_one_idx",
                                    "parked_due_idx",
                                    "parked_shared_idx",
                                    "parked_key_idx",
                                    "parked_dead_idx",
                                    "parked_id_idx",
                                    "parked_count_idx",
                                    "parked_replay_idx",
                                    "pause_what_idx",
                                    "audit_at_idx",
                                    "audit_event_idx"};

bool HasOurName(const char* index, const char* table) {
  for (const char* suffix : kDayIndexes) {
    if (strcmp(index, psprintf("%s%s", table, suffix)) == 0) {
      return true;
    }
  }
  for (const char* name : kIndexes) {
    if (strcmp(index, name) == 0) {
      return true;
    }
  }
  return false;
}

// The table of an index that the extension made; InvalidOid: it is none. Plain.
Oid TableOfOurIndex(Oid index) {
  if (get_rel_relkind(index) != RELKIND_INDEX) {
    return InvalidOid;
  }
  const Oid table = IndexGetRelation(index, true);
  if (!IsOwnTable(table) || !OwnsRelation(table) || pg::InOwnStatement()) {
    return InvalidOid;
  }
  return HasOurName(get_rel_name(index), get_rel_name(table)) ? table : InvalidOid;
}

// The same of what goes with an index: somebody's own of a partitioned table takes those of day tables that are like it
// for its parts, and they would go with it. Plain.
Oid TableOfOurIndexIn(Oid index) {
  if (get_rel_relkind(index) != RELKIND_PARTITIONED_INDEX) {
    return TableOfOurIndex(index);
  }
  const List* parts = find_all_inheritors(index, NoLock, nullptr);
  for (int i = 0; i < list_length(parts); i++) {
    const Oid table = TableOfOurIndex(list_nth_oid(parts, i));
    if (OidIsValid(table)) {
      return table;
    }
  }
  return InvalidOid;
}

// The same, or of the index of a constraint. Plain.
Oid TableOfIndexInUse(Oid index) {
  if (!OidIsValid(get_index_constraint(index))) {
    return TableOfOurIndex(index);
  }
  const Oid table = IndexGetRelation(index, true);
  return !pg::InOwnStatement() && IsOwnTable(table) && OwnsRelation(table) ? table : InvalidOid;
}

bool HasWideColumn(Oid table, const List* columns) {
  for (int i = 0; i < list_length(columns); i++) {
    const auto* column = static_cast<const IndexElem*>(list_nth(columns, i));
    if (column->name != nullptr && IsWide(table, column->name)) {
      return true;
    }
  }
  return false;
}

bool HasExpression(const List* columns) {
  for (int i = 0; i < list_length(columns); i++) {
    if (static_cast<const IndexElem*>(list_nth(columns, i))->expr != nullptr) {
      return true;
    }
  }
  return false;
}

// Of days. Plain.
bool IsPartitioned(Oid table) {
  return get_rel_relkind(table) == RELKIND_PARTITIONED_TABLE;
}

// Why it may refuse a row: it is unique, a value does not fit into a page of it, an expression fails. nullptr: it
// cannot. Nor can outbox's own, which a restore makes, or whoever has dropped one. Plain.
const char* RefusesRows(Oid table, const IndexStmt* index) {
  if (index->unique) {
    return "create a unique index on";
  }
  if (index->idxname != nullptr && !IsPartitioned(table) && HasOurName(index->idxname, get_rel_name(table))) {
    return nullptr;
  }
  if (HasExpression(index->indexParams)) {
    return "create an index of an expression on";
  }
  if (index->whereClause != nullptr) {
    return "create an index with a condition on";
  }
  return HasWideColumn(table, index->indexParams) || HasWideColumn(table, index->indexIncludingParams)
             ? "create an index of a column of variable length on"
             : nullptr;
}

// ALTER TABLE and ALTER INDEX rename relations of any kind. What an index is for is known by its name. (Views:
// object_commands.cpp.)
void CheckRenameRelation(const RangeVar* name) {
  const Oid relation = FindRelation(name);
  if (!OidIsValid(relation)) {
    return;
  }
  const Oid indexed = Guard([relation] { return TableOfIndexInUse(relation); });
  if (OidIsValid(FindAltered(name)) || Guard([relation] { return IsOwnSequence(relation); })) {
    RefuseShape(relation, "rename");
  } else if (OidIsValid(indexed)) {
    RefuseShape(indexed, "rename an index of");
  }
}

}  // namespace

void CheckAlterTable(Node* statement) {
  const auto* alter = reinterpret_cast<AlterTableStmt*>(statement);
  const Oid table = FindAltered(alter->relation);
  for (int i = 0; i < list_length(alter->cmds); i++) {
    const auto* command = static_cast<AlterTableCmd*>(list_nth(alter->cmds, i));
    if (OidIsValid(table)) {
      CheckForm(table, command);
    } else {
      CheckRelative(command);
      CheckUnloggedSequence(alter->relation, command);
    }
  }
}

bool SwitchesTriggersOn(Node* statement) {
  const auto* alter = reinterpret_cast<AlterTableStmt*>(statement);
  for (int i = 0; i < list_length(alter->cmds); i++) {
    switch (static_cast<AlterTableCmd*>(list_nth(alter->cmds, i))->subtype) {
      case AT_EnableTrig:
      case AT_EnableTrigAll:
      case AT_EnableTrigUser:
      case AT_EnableAlwaysTrig:
        return true;
      default:
        break;
    }
  }
  return false;
}

void KeepGuardsFiring(Node* statement) {
  const Oid table = FindAltered(reinterpret_cast<AlterTableStmt*>(statement)->relation);
  if (OidIsValid(table)) {
    LetGuardsFire(table);
  }
}

void CheckAttach(const RangeVar* parent, const char* words) {
  const Oid table = FindAltered(parent);
  if (OidIsValid(table)) {
    RefuseAttach(table, words);
  }
}

// Rows of a child are read, changed and deleted as if they were the parent's own, past its keys and triggers.
void CheckInherited(const RangeVar* parent) {
  const Oid table = FindAltered(parent);
  if (OidIsValid(table)) {
    RefuseShape(table, "create a child of");
  }
}

// What is in nobody's way (of narrow columns, it speeds up somebody's query) is let through. Not on all days at once: a
// dump says that theirs are parts of it, and has not the index itself, as of any table of an extension.
void CheckCreateIndex(Node* statement) {
  const auto* index = reinterpret_cast<IndexStmt*>(statement);
  const Oid table = FindAltered(index->relation);
  const char* words = OidIsValid(table) ? Guard([=] { return RefusesRows(table, index); }) : nullptr;
  if (words != nullptr) {
    RefuseShape(table, words);
  } else if (OidIsValid(table) && Guard([table] { return IsPartitioned(table); })) {
    RefuseShape(table, "create an index of all days on", "CREATE INDEX on the day tables that need it.");
  }
}

void CheckRuleOnTable(const RangeVar* relation) {
  const Oid table = FindAltered(relation);
  if (OidIsValid(table)) {
    RefuseShape(table, "create a rule on");
  }
}

// It does nothing before row security is enabled, which is refused as well, and a dump would carry it on.
void CheckCreatePolicy(Node* statement) {
  const Oid table = FindAltered(reinterpret_cast<const CreatePolicyStmt*>(statement)->table);
  if (OidIsValid(table)) {
    RefuseShape(table, "create a policy on");
  }
}

void CheckRename(Node* statement) {
  const auto* rename = reinterpret_cast<RenameStmt*>(statement);
  switch (rename->renameType) {
    case OBJECT_TABLE:
    case OBJECT_FOREIGN_TABLE:
    case OBJECT_INDEX:
    case OBJECT_SEQUENCE:
      CheckRenameRelation(rename->relation);
      break;
    case OBJECT_COLUMN:
    case OBJECT_TABCONSTRAINT:
    case OBJECT_TRIGGER: {
      const Oid table = FindAltered(rename->relation);
      const bool own = OidIsValid(table) && rename->renameType == OBJECT_TRIGGER &&
                       !Guard([&] { return IsOwnTrigger(table, rename->subname); });
      if (OidIsValid(table) && !own) {
        RefuseShape(table, rename->renameType == OBJECT_COLUMN    ? "rename a column of"
                           : rename->renameType == OBJECT_TRIGGER ? "rename a trigger of"
                                                                  : "rename a constraint of");
      }
      break;
    }
    case OBJECT_SCHEMA: {
      const Oid table =
          !pg::IsOurSchema(rename->subname) ? InvalidOid : Guard([] { return pg::FindOurRelation("log"); });
      if (OidIsValid(table) && Guard([table] { return IsOwnTable(table) && OwnsRelation(table); })) {
        RefuseShape(table, "rename the schema of");
      }
      break;
    }
    default:
      break;
  }
}

void CheckSetSchema(Node* statement) {
  const auto* alter = reinterpret_cast<AlterObjectSchemaStmt*>(statement);
  const bool of_table = alter->objectType == OBJECT_TABLE || alter->objectType == OBJECT_FOREIGN_TABLE;
  const Oid table = of_table ? FindAltered(alter->relation) : InvalidOid;
  if (OidIsValid(table)) {
    RefuseShape(table, "change the schema of");
  }
}

// DROP EXTENSION of the other one would take it along.
void CheckDependency(Node* statement) {
  const auto* depends = reinterpret_cast<AlterObjectDependsStmt*>(statement);
  if (depends->remove) {
    return;
  }
  const Oid relation = FindRelation(depends->relation);
  if (depends->objectType == OBJECT_TRIGGER) {
    const char* trigger = strVal(llast(castNode(List, depends->object)));
    if (Guard([=] { return AltersOwnTrigger(relation, trigger); })) {
      RefuseShape(relation, "add a dependency to a trigger of");
    }
  } else if (depends->objectType == OBJECT_INDEX) {
    const Oid table = OidIsValid(relation) ? Guard([relation] { return TableOfIndexInUse(relation); }) : InvalidOid;
    if (OidIsValid(table)) {
      RefuseShape(table, "add a dependency to an index of");
    }
  }
}

bool DropsPart(Node* statement) {
  const ObjectType type = reinterpret_cast<DropStmt*>(statement)->removeType;
  return (type == OBJECT_TABLE || type == OBJECT_INDEX) && !days::DroppingDayTable();
}

// As a tool would that makes a database like a list of tables which has none of these.
void CheckDropPart(Node* statement) {
  const auto* drop = reinterpret_cast<DropStmt*>(statement);
  for (int i = 0; i < list_length(drop->objects); i++) {
    auto* names = static_cast<List*>(list_nth(drop->objects, i));
    const RangeVar* relation = Guard([names] { return makeRangeVarFromNameList(names); });
    if (drop->removeType == OBJECT_TABLE) {
      const Oid table = FindAltered(relation);
      if (OidIsValid(table) && Guard([table] { return IsDayOfNotes(table); })) {
        RefuseShape(table, "drop");
      }
      continue;
    }
    const Oid index = FindRelation(relation);
    const Oid table = OidIsValid(index) ? Guard([index] { return TableOfOurIndexIn(index); }) : InvalidOid;
    if (OidIsValid(table)) {
      RefuseShape(table, "drop an index of");
    }
  }
}

void CheckAlterSequence(Node* statement) {
  const Oid sequence = FindRelation(reinterpret_cast<AlterSeqStmt*>(statement)->sequence);
  if (Guard([sequence] { return IsOwnSequence(sequence); })) {
    RefuseShape(sequence, "change");
  }
}

}  // namespace outbox::admin
