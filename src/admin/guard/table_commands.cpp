#include "admin/guard/table_commands.h"

#include <string>

#include "admin/common/query.h"
#include "admin/guard/by_hand.h"
#include "admin/guard/loss.h"
#include "days/day_table_ddl.h"
#include "emit/replica_role.h"
#include "pg/entry.h"
#include "pg/rights.h"
#include "pg/schemas.h"
#include "pg/settings.h"
#include "pg/transaction.h"

extern "C" {
#include "access/genam.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_trigger.h"
#include "commands/extension.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "nodes/value.h"
#include "storage/lmgr.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"
}

namespace outbox::admin {

namespace {

using pg::Guard;
using pg::UserError;

bool Owns(Oid relation) {
  return pg::OwnsObject(RelationRelationId, relation);
}

bool InSchemaInUse(Oid relation) {
  return OidIsValid(relation) && !creating_extension && pg::IsOurSchema(get_rel_namespace(relation)) &&
         OidIsValid(get_extension_oid("outbox", true));
}

// A table of the extension, or a partition of one. (A day table that was detached is a user's own.)
bool IsOurs(Oid relation) {
  if (!InSchemaInUse(relation) ||
      (get_rel_relkind(relation) != RELKIND_RELATION && get_rel_relkind(relation) != RELKIND_PARTITIONED_TABLE)) {
    return false;
  }
  const Oid member = get_rel_relispartition(relation) ? get_partition_parent(relation, true) : relation;
  return OidIsValid(member) && getExtensionOfObject(RelationRelationId, member) == get_extension_oid("outbox", true);
}

// A view of the extension.
bool IsOurView(Oid relation) {
  return InSchemaInUse(relation) && get_rel_relkind(relation) == RELKIND_VIEW &&
         getExtensionOfObject(RelationRelationId, relation) == get_extension_oid("outbox", true);
}

// A relation named in a command; nothing where there is none.
Oid Find(const RangeVar* relation) {
  return relation == nullptr ? InvalidOid : Guard([relation] { return RangeVarGetRelid(relation, NoLock, true); });
}

// The table of outbox that a role with the right to it is altering by hand. A role without it is refused by the command
// itself.
Oid FindAltered(const RangeVar* relation) {
  const Oid found = Find(relation);
  const bool by_hand =
      OidIsValid(found) && Guard([found] { return !pg::InOwnStatement() && IsOurs(found) && Owns(found); });
  return by_hand ? found : InvalidOid;
}

// --- ALTER TABLE ---

enum class Altered : unsigned char {
  kShape,     // what is counted on
  kUnlogged,  // a crash leaves nothing
  kDetached,  // a day goes
  kAttached,  // a day comes
  kGuard,     // a trigger of outbox, or all of them
};

struct AlterRule {
  AlterTableType form;
  Altered what;
  const char* words;  // "cannot WORDS TABLE"
};

// Forms that are not here change nothing that is counted on: storage, statistics, tablespace, owner, SET LOGGED, ...
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
    {AT_AddInherit, Altered::kShape, "change the parent of"},
    {AT_SetUnLogged, Altered::kUnlogged, "make unlogged"},
    {AT_DetachPartition, Altered::kDetached, "detach"},
    {AT_AttachPartition, Altered::kAttached, "attach a partition to"},
    {AT_DisableTrig, Altered::kGuard, "switch off triggers of"},
    {AT_DisableTrigAll, Altered::kGuard, "switch off triggers of"},
    {AT_DisableTrigUser, Altered::kGuard, "switch off triggers of"},
    {AT_EnableReplicaTrig, Altered::kGuard, "switch off triggers of"},
};

void RefuseShape(Oid table, const std::string& words) {
  if (pg::settings.allow_loss) {
    NoteLoss(words + " " + NameOf(table), "");
    return;
  }
  throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot " + words + " " + NameOf(table),
                  "The table belongs to extension outbox: emit() and the workers count on what it is, and a dump of "
                  "another one could not be restored.",
                  "Keep what is yours in a table of your own. To do it all the same, and answer for it: SET "
                  "outbox.allow_loss = on."};
}

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
  return IsOurs(relation) && get_rel_relispartition(relation) &&
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
  if (pg::settings.allow_loss) {
    NoteLoss(words + " " + NameOf(parent), "");
  } else if (InUse()) {
    throw UserError{
        ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot " + words + " " + NameOf(parent),
        "Day tables are made by outbox itself. Rows of any other table have transaction ids that lanes may "
        "be past: they would be sent at the wrong time, or never.",
        "INSERT INTO outbox_internal.log SELECT * FROM ... keeps events in outbox_internal.foreign_event, and SELECT "
        "outbox.adopt() sends them. To do it all the same, and answer for it: SET outbox.allow_loss = on."};
  }
}

// Made by the extension: its function is there.
bool IsTriggerOfOurs(Oid table, const char* name) {
  const Oid oid = get_trigger_oid(table, name, true);
  if (!OidIsValid(oid)) {
    return false;
  }
  Relation triggers = table_open(TriggerRelationId, AccessShareLock);
  ScanKeyData key;
  ScanKeyInit(&key, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(oid));
  SysScanDesc scan = systable_beginscan(triggers, TriggerOidIndexId, true, nullptr, 1, &key);
  HeapTuple tuple = systable_getnext(scan);
  const bool ours = HeapTupleIsValid(tuple) &&
                    pg::IsOurSchema(get_func_namespace(reinterpret_cast<Form_pg_trigger>(GETSTRUCT(tuple))->tgfoid));
  systable_endscan(scan);
  table_close(triggers, AccessShareLock);
  return ours;
}

// A restore that switches triggers off around its data is into an outbox that is not in use.
void CheckGuard(Oid table, const char* trigger, const std::string& words) {
  if ((trigger == nullptr || Guard([&] { return IsTriggerOfOurs(table, trigger); })) && InUse()) {
    JudgeGuards(words + " " + NameOf(table));
  }
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
      case Altered::kGuard:
        CheckGuard(table, command->name, rule.words);
        break;
    }
  }
}

// --- DROP TABLE of a day, DROP INDEX ---

// Those that the extension makes are called by their table's name, with one of these behind it. (Others' indexes are
// theirs.)
constexpr const char* kIndexes[] = {
    "_xid",       "_at",      "_id",       "_acknowledged", "_digest",     "_created_at_idx",
    "_one_idx",   "_due_idx", "_key_idx",  "_id_idx",       "_shared_idx", "_dead_idx",
    "_count_idx", "_at_idx",  "_what_idx", "_replay_idx",   "_event_idx"};

// The table of an index that the extension made; InvalidOid: it is none. Plain.
Oid TableOfOurIndex(Oid index) {
  if (get_rel_relkind(index) != RELKIND_INDEX) {
    return InvalidOid;
  }
  const Oid table = IndexGetRelation(index, true);
  if (!IsOurs(table) || !Owns(table) || pg::InOwnStatement()) {
    return InvalidOid;
  }
  const char* name = get_rel_name(index);
  for (const char* suffix : kIndexes) {
    if (strcmp(name, psprintf("%s%s", get_rel_name(table), suffix)) == 0) {
      return table;
    }
  }
  return InvalidOid;
}

// --- COPY ---

// Whether a dump may bring rows of this table into an outbox that is in use: events, which are kept apart.
bool MayComeInto(const char* name) {
  return strcmp(name, "log") == 0 || strncmp(name, "log_", 4) == 0 || strcmp(name, "foreign_event") == 0 ||
         strcmp(name, "event") == 0 || strcmp(name, "outboxevent") == 0 || strcmp(name, "audit") == 0;
}

// Positions, ticks, owners: lanes that work here would take those of a dump for their own.
void CheckRestore(Oid relation) {
  if (Guard([relation] { return InSchemaInUse(relation) && !MayComeInto(get_rel_name(relation)); }) && InUse()) {
    throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot restore into an outbox that is in use",
                    "What a dump says of positions is made of another server's transaction ids.",
                    "Restore into a new database, and keep applications away until it is restored."};
  }
}

// --- CREATE OR REPLACE FUNCTION ---

// A function of that name that is the extension's, and the current role's to replace; InvalidOid: there is none. Plain.
Oid FindOwnFunction(List* names) {
  char* schema = nullptr;
  char* name = nullptr;
  DeconstructQualifiedName(names, &schema, &name);
  List* path = schema == nullptr ? fetch_search_path(false) : NIL;
  const Oid into = schema != nullptr ? get_namespace_oid(schema, true) : path != NIL ? linitial_oid(path) : InvalidOid;
  if (!pg::IsOurSchema(into) || pg::InOwnStatement()) {
    return InvalidOid;
  }
  Oid found = InvalidOid;
  CatCList* functions = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(name));
  for (int i = 0; i < functions->n_members && !OidIsValid(found); i++) {
    const auto* function = reinterpret_cast<Form_pg_proc>(GETSTRUCT(&functions->members[i]->tuple));
    if (function->pronamespace == into &&
        getExtensionOfObject(ProcedureRelationId, function->oid) == get_extension_oid("outbox", true)) {
      found = function->oid;
    }
  }
  ReleaseSysCacheList(functions);
  return OidIsValid(found) && pg::OwnsObject(ProcedureRelationId, found) ? found : InvalidOid;
}

// --- CREATE TRIGGER ---

object_access_hook_type previous_hook = nullptr;

// A trigger that the current command is making.
struct NewTrigger {
  Oid table;
  int16 type;
  Oid function;
};

NewTrigger FindNew(Oid trigger) {
  Relation triggers = table_open(TriggerRelationId, AccessShareLock);
  ScanKeyData key;
  ScanKeyInit(&key, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(trigger));
  SysScanDesc scan = systable_beginscan(triggers, TriggerOidIndexId, true, SnapshotSelf, 1, &key);
  HeapTuple tuple = systable_getnext(scan);
  NewTrigger found = {InvalidOid, 0, InvalidOid};
  if (HeapTupleIsValid(tuple)) {
    const auto* form = reinterpret_cast<Form_pg_trigger>(GETSTRUCT(tuple));
    found = {form->tgrelid, form->tgtype, form->tgfoid};
  }
  systable_endscan(scan);
  table_close(triggers, AccessShareLock);
  return found;
}

// One that may drop or change what is written: rows before they are, or instead of them. Plain.
bool MayTakeRows(const NewTrigger& trigger) {
  return TRIGGER_FOR_ROW(trigger.type) && (TRIGGER_FOR_BEFORE(trigger.type) || TRIGGER_FOR_INSTEAD(trigger.type)) &&
         getExtensionOfObject(ProcedureRelationId, trigger.function) != get_extension_oid("outbox", true) &&
         !pg::InOwnStatement();
}

// A role that was granted ALL on the tables of outbox has TRIGGER among it, and what such a trigger calls would run as
// their owner: in workers, in adopt(), in create_route(). The owner's own may look, and not take.
void JudgeTrigger(Oid trigger) {
  const NewTrigger found = Guard([trigger] { return FindNew(trigger); });
  if (!Guard([&found] { return InSchemaInUse(found.table); })) {
    return;
  }
  if (Guard([&found] { return !Owns(found.table); })) {
    throw UserError{ERRCODE_INSUFFICIENT_PRIVILEGE, "must be owner of the tables of outbox to create a trigger on them",
                    "It would be fired by background workers, with the rights of the owner.",
                    "Have a consumer of the events do it, or a trigger on your own table."};
  }
  if (!Guard([&found] { return MayTakeRows(found) && (IsOurs(found.table) || IsOurView(found.table)); })) {
    return;
  }
  if (pg::settings.allow_loss) {
    NoteLoss("create a trigger on " + NameOf(found.table), "");
    return;
  }
  throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                  "cannot create a trigger on " + NameOf(found.table) + " that comes before its rows are written",
                  "What it drops or changes would be lost to workers and emitters, without a word.",
                  "A trigger AFTER the rows may look at them. To do it all the same, and answer for it: SET "
                  "outbox.allow_loss = on."};
}

// Not before the command: the name in it may then mean another table than once the command has its lock. (Internal:
// triggers of foreign keys, which call nothing of the user's.) Plain: the next hook may raise.
void OnAccess(ObjectAccessType access, Oid catalog, Oid object, int column, void* argument) {
  if (previous_hook != nullptr) {
    previous_hook(access, catalog, object, column, argument);
  }
  if (access == OAT_POST_CREATE && catalog == TriggerRelationId && IsUnderPostmaster && !IsBinaryUpgrade &&
      !static_cast<ObjectAccessPostCreate*>(argument)->is_internal) {
    pg::Entry(&JudgeTrigger, object);
  }
}

// --- COPY, of what is restored ---

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

void CheckAlterTable(Node* statement) {
  const auto* alter = reinterpret_cast<AlterTableStmt*>(statement);
  const Oid table = FindAltered(alter->relation);
  if (OidIsValid(table)) {
    for (int i = 0; i < list_length(alter->cmds); i++) {
      CheckForm(table, static_cast<AlterTableCmd*>(list_nth(alter->cmds, i)));
    }
  }
}

void CheckAttach(const RangeVar* parent, const char* words) {
  const Oid table = FindAltered(parent);
  if (OidIsValid(table)) {
    RefuseAttach(table, words);
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
    case OBJECT_COLUMN:
    case OBJECT_TRIGGER: {
      const Oid table = FindAltered(rename->relation);
      const bool own = OidIsValid(table) && rename->renameType == OBJECT_TRIGGER &&
                       !Guard([&] { return IsTriggerOfOurs(table, rename->subname); });
      if (OidIsValid(table) && !own) {
        RefuseShape(table, rename->renameType == OBJECT_TABLE    ? "rename"
                           : rename->renameType == OBJECT_COLUMN ? "rename a column of"
                                                                 : "rename a trigger of");
      }
      break;
    }
    case OBJECT_SCHEMA: {
      const Oid table =
          !pg::IsOurSchema(rename->subname) ? InvalidOid : Guard([] { return pg::FindOurRelation("log"); });
      if (OidIsValid(table) && Guard([table] { return IsOurs(table) && Owns(table); })) {
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
  const Oid table = alter->objectType == OBJECT_TABLE ? FindAltered(alter->relation) : InvalidOid;
  if (OidIsValid(table)) {
    RefuseShape(table, "change the schema of");
  }
}

bool DropsTrigger(Node* statement) {
  return reinterpret_cast<DropStmt*>(statement)->removeType == OBJECT_TRIGGER;
}

void CheckDropTrigger(Node* statement) {
  const auto* drop = reinterpret_cast<DropStmt*>(statement);
  for (int i = 0; i < list_length(drop->objects); i++) {
    auto* names = static_cast<List*>(list_nth(drop->objects, i));  // schema, table, trigger
    if (list_length(names) < 2) {
      continue;
    }
    const RangeVar* relation =
        Guard([names] { return makeRangeVarFromNameList(list_copy_head(names, list_length(names) - 1)); });
    const Oid table = FindAltered(relation);
    const Oid view = Find(relation);
    if (OidIsValid(table)) {
      CheckGuard(table, strVal(llast(names)), "drop a trigger of");
    } else if (OidIsValid(view) && Guard([view, names] {
                 return !pg::InOwnStatement() && IsOurView(view) && Owns(view) &&
                        IsTriggerOfOurs(view, strVal(llast(names)));
               })) {
      RefuseShape(view, "drop a trigger of");
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
    const Oid index = Find(relation);
    const Oid table = OidIsValid(index) ? Guard([index] { return TableOfOurIndex(index); }) : InvalidOid;
    if (OidIsValid(table)) {
      RefuseShape(table, "drop an index of");
    }
  }
}

namespace {

// The view, and the views behind it: LOCK TABLE goes down through them, with the rights of their owners. Plain, and by
// catalog snapshots: the transaction's own is not to be taken before the lock.
void CollectViews(Oid view, List** views) {
  check_stack_depth();
  if (get_rel_relkind(view) != RELKIND_VIEW || list_member_oid(*views, view)) {
    return;
  }
  *views = lappend_oid(*views, view);
  List* rules = NIL;
  ScanKeyData keys[2];
  ScanKeyInit(&keys[0], Anum_pg_rewrite_ev_class, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(view));
  Relation catalog = table_open(RewriteRelationId, AccessShareLock);
  SysScanDesc scan = systable_beginscan(catalog, RewriteRelRulenameIndexId, true, nullptr, 1, keys);
  for (HeapTuple row = systable_getnext(scan); row != nullptr; row = systable_getnext(scan)) {
    rules = lappend_oid(rules, reinterpret_cast<Form_pg_rewrite>(GETSTRUCT(row))->oid);
  }
  systable_endscan(scan);
  table_close(catalog, AccessShareLock);
  List* used = NIL;
  catalog = table_open(DependRelationId, AccessShareLock);
  for (int i = 0; i < list_length(rules); i++) {
    ScanKeyInit(&keys[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(RewriteRelationId));
    ScanKeyInit(&keys[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ,
                ObjectIdGetDatum(list_nth_oid(rules, i)));
    scan = systable_beginscan(catalog, DependDependerIndexId, true, nullptr, 2, keys);
    for (HeapTuple row = systable_getnext(scan); row != nullptr; row = systable_getnext(scan)) {
      const auto* depends = reinterpret_cast<Form_pg_depend>(GETSTRUCT(row));
      used = depends->refclassid == RelationRelationId ? list_append_unique_oid(used, depends->refobjid) : used;
    }
    systable_endscan(scan);
  }
  table_close(catalog, AccessShareLock);
  for (int i = 0; i < list_length(used); i++) {
    CollectViews(list_nth_oid(used, i), views);
  }
}

// A view of outbox that is not the caller's, among those that would be locked.
Oid ViewOfOthers(Oid locked) {
  List* views = NIL;
  CollectViews(locked, &views);
  for (int i = 0; i < list_length(views); i++) {
    const Oid view = list_nth_oid(views, i);
    if (IsOurView(view) && !Owns(view)) {
      return view;
    }
  }
  return InvalidOid;
}

}  // namespace

bool LocksView(Node* statement) {
  const auto* lock = reinterpret_cast<LockStmt*>(statement);
  if (lock->mode <= RowExclusiveLock) {
    return false;
  }
  for (int i = 0; i < list_length(lock->relations); i++) {
    const Oid found = RangeVarGetRelid(static_cast<RangeVar*>(list_nth(lock->relations, i)), NoLock, true);
    if (OidIsValid(found) && get_rel_relkind(found) == RELKIND_VIEW) {
      return true;
    }
  }
  return false;
}

// UPDATE and DELETE of outbox.event are granted for the sake of the answer, and are a right to every lock on the view:
// whoever may emit could hold up all who emit through it.
void CheckLock(Node* statement) {
  const auto* lock = reinterpret_cast<LockStmt*>(statement);
  for (int i = 0; i < list_length(lock->relations); i++) {
    const Oid found = Find(static_cast<RangeVar*>(list_nth(lock->relations, i)));
    const Oid view = OidIsValid(found) ? Guard([found] { return ViewOfOthers(found); }) : InvalidOid;
    if (OidIsValid(view)) {
      throw UserError{ERRCODE_INSUFFICIENT_PRIVILEGE, "cannot lock view " + NameOf(view) + " in this mode",
                      "All who emit through it would wait until the lock is gone.",
                      "ROW EXCLUSIVE is the strongest mode for who may emit. To have one at a time, lock a table or "
                      "a row of the application, or take pg_advisory_xact_lock()."};
    }
  }
}

void CheckCopy(Node* statement) {
  const auto* copy = reinterpret_cast<CopyStmt*>(statement);
  const Oid relation = copy->is_from ? Find(copy->relation) : InvalidOid;
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

bool ReplacesFunction(Node* statement) {
  return reinterpret_cast<CreateFunctionStmt*>(statement)->replace && !creating_extension;
}

void CheckReplaceFunction(Node* statement) {
  const auto* create = reinterpret_cast<CreateFunctionStmt*>(statement);
  const Oid found = Guard([create] { return FindOwnFunction(create->funcname); });
  if (!OidIsValid(found)) {
    return;
  }
  const std::string name = Guard([found]() -> const char* {
    return psprintf("%s.%s", get_namespace_name(get_func_namespace(found)), get_func_name(found));
  });
  if (pg::settings.allow_loss) {
    NoteLoss("replace function " + name, "");
    return;
  }
  throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot replace function " + name,
                  "It belongs to extension outbox, whose triggers, views and workers count on what it does.",
                  "Make one of your own, in a schema of your own. To do it all the same, and answer for it: SET "
                  "outbox.allow_loss = on."};
}

bool IsRestored(Node* statement) {
  auto* copy = reinterpret_cast<CopyStmt*>(statement);
  if (!copy->is_from || copy->relation == nullptr || !pg::IsOurSchema(copy->relation->schemaname) ||
      !OidIsValid(get_extension_oid("outbox", true))) {
    return false;
  }
  static const char* const keyed[] = {"lane", "parked", "side_lane", "side_topic", "pause"};
  for (const char* name : keyed) {
    if (strcmp(copy->relation->relname, name) == 0) {
      return true;
    }
  }
  return false;
}

void InstallTriggerHook() {
  previous_hook = object_access_hook;
  object_access_hook = OnAccess;
}

}  // namespace outbox::admin
