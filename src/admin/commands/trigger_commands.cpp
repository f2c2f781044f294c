#include "admin/commands/trigger_commands.h"

#include "admin/commands/own_relations.h"
#include "admin/common/query.h"
#include "admin/guard/by_hand.h"
#include "admin/guard/loss.h"
#include "emit/topic_rights.h"
#include "pg/guard.h"
#include "pg/rights.h"
#include "pg/schemas.h"
#include "pg/settings.h"
#include "pg/transaction.h"

extern "C" {
#include "access/genam.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "nodes/value.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"
}

namespace outbox::admin {

namespace {

using pg::Guard;
using pg::UserError;

// What pg_trigger says of one; zeroes: there is none. Plain.
struct TriggerRow {
  Oid table;
  int16 type;
  Oid function;
  Oid parent;            // of which it is the partition's
  const char* argument;  // the first one; nullptr: it has none
};

TriggerRow ReadTrigger(Oid trigger, Snapshot snapshot) {
  Relation triggers = table_open(TriggerRelationId, AccessShareLock);
  ScanKeyData key;
  ScanKeyInit(&key, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(trigger));
  SysScanDesc scan = systable_beginscan(triggers, TriggerOidIndexId, true, snapshot, 1, &key);
  HeapTuple tuple = systable_getnext(scan);
  TriggerRow found = {};
  if (HeapTupleIsValid(tuple)) {
    const auto* form = reinterpret_cast<Form_pg_trigger>(GETSTRUCT(tuple));
    found = {form->tgrelid, form->tgtype, form->tgfoid, form->tgparentid, nullptr};
    if (form->tgnargs > 0) {
      bool null = false;
      const Datum arguments = heap_getattr(tuple, Anum_pg_trigger_tgargs, RelationGetDescr(triggers), &null);
      found.argument = text_to_cstring(DatumGetByteaPP(arguments));  // each ends in a zero byte
    }
  }
  systable_endscan(scan);
  table_close(triggers, AccessShareLock);
  return found;
}

// CREATE OR REPLACE, of one that was outbox's before the command. Plain.
bool ReplacesOurs(Oid trigger, const TriggerRow& made) {
  const TriggerRow before = ReadTrigger(trigger, nullptr);
  return OidIsValid(before.table) && !OidIsValid(before.parent) &&
         pg::IsOurSchema(get_func_namespace(before.function)) && (IsOwnTable(made.table) || IsOwnView(made.table)) &&
         !pg::InOwnStatement();
}

// On a table or view of outbox, and of somebody else. Plain.
bool IsAdded(const TriggerRow& trigger) {
  return (IsOwnTable(trigger.table) || IsOwnView(trigger.table)) && !IsMember(ProcedureRelationId, trigger.function) &&
         !pg::InOwnStatement();
}

// It may drop or change what is written: rows before they are, or instead of them. Plain.
bool MayTakeRows(const TriggerRow& trigger) {
  return TRIGGER_FOR_ROW(trigger.type) && (TRIGGER_FOR_BEFORE(trigger.type) || TRIGGER_FOR_INSTEAD(trigger.type));
}

// emit() writes to these without asking for triggers. Plain.
bool IsOfTheLog(Oid table) {
  const char* name = get_rel_name(WholeOf(table));
  return name != nullptr && (strcmp(name, "log") == 0 || strcmp(name, "log_spare") == 0);
}

// What emit_row() emits is the table owner's. Whoever was granted TRIGGER, as ALL has it, chooses what that is: it has
// to be a topic to which he emits himself. (With the owner's rights he is the owner, whose right is looked at when it
// is fired.) Plain.
void CheckTopicOfTrigger(const TriggerRow& trigger) {
  if (trigger.argument == nullptr || !pg::IsOurSchema(get_func_namespace(trigger.function)) ||
      strcmp(get_func_name(trigger.function), "emit_row") != 0 || pg::OwnsObject(RelationRelationId, trigger.table)) {
    return;
  }
  emit::NewEvent event = {};
  event.aggregate_type = cstring_to_text(trigger.argument);
  emit::CheckTopicRight(&event);
}

// A role that was granted ALL on the tables of outbox has TRIGGER among it, and what such a trigger calls would run as
// their owner: in workers, in adopt(), in create_route(). The owner's own may look, and not take.
void JudgeTrigger(Oid trigger) {
  const TriggerRow found = Guard([trigger] { return ReadTrigger(trigger, SnapshotSelf); });  // made just now
  if (!Guard([&found] { return InSchemaInUse(found.table); })) {
    Guard([&found] { CheckTopicOfTrigger(found); });
    return;
  }
  if (Guard([&found] { return !OwnsRelation(found.table); })) {
    throw UserError{ERRCODE_INSUFFICIENT_PRIVILEGE, "must be owner of the tables of outbox to create a trigger on them",
                    "It would be fired by background workers, with the rights of the owner.",
                    "Have a consumer of the events do it, or a trigger on your own table."};
  }
  if (Guard([trigger, &found] { return ReplacesOurs(trigger, found); })) {
    RefuseShape(found.table, "replace a trigger of");
    return;
  }
  const bool added = Guard([&found] { return IsAdded(found); });
  const bool unheard = added && Guard([&found] { return IsOfTheLog(found.table); });
  if (!added || (!unheard && !MayTakeRows(found))) {
    return;
  }
  if (pg::settings.allow_loss) {
    NoteLoss("create a trigger on " + NameOf(found.table), "");
    return;
  }
  if (unheard) {
    throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    "cannot create a trigger on " + NameOf(found.table) + ", which would not be fired",
                    "emit() writes its rows past triggers.",
                    "Have a consumer of the events do it, or a trigger on your own table. To do it all the same, and "
                    "answer for it: SET outbox.allow_loss = on."};
  }
  throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                  "cannot create a trigger on " + NameOf(found.table) + " that comes before its rows are written",
                  "What it drops or changes would be lost to workers and emitters, without a word.",
                  "A trigger AFTER the rows may look at them. To do it all the same, and answer for it: SET "
                  "outbox.allow_loss = on."};
}

// What the guards of a table keep. A restore that switches them off around its data is into an outbox that is not in
// use, into tables of the inbox that are empty.
enum class Kept : unsigned char {
  kEvents,  // undelivered ones, and what says which those are
  kRows,    // what only outbox writes, delivered or not: the audit, pauses, who this outbox is
  kMarks,   // what consumers have handled
};

// Plain.
Kept KeptBy(Oid table) {
  const char* name = get_rel_name(WholeOf(table));
  if (name == nullptr || !pg::IsOurSchema(get_rel_namespace(WholeOf(table)))) {
    return Kept::kEvents;
  }
  if (strncmp(name, "inbox_", strlen("inbox_")) == 0) {
    return Kept::kMarks;
  }
  const bool apart = strcmp(name, "identity") == 0 || strcmp(name, "foreign_event") == 0;
  return apart || (OnlyOutboxWrites(name) && !IsStateTable(name)) ? Kept::kRows : Kept::kEvents;
}

bool HasRows(Oid table) {
  return !RunSql(Access::kWrite, ("SELECT FROM " + NameOf(table) + " LIMIT 1").c_str()).empty();
}

void RefuseUnguarded(Oid table, const std::string& words) {
  RefuseByHand(words + " " + NameOf(table),
               "They refuse what is not to be done to its rows by hand, and have it audited where it is done.",
               "Leave them on: what has to be done to its rows they let through under outbox.allow_loss.");
}

}  // namespace

bool IsOwnTrigger(Oid table, const char* name) {
  const Oid trigger = get_trigger_oid(table, name, true);
  return OidIsValid(trigger) && pg::IsOurSchema(get_func_namespace(ReadTrigger(trigger, nullptr).function));
}

bool AltersOwnTrigger(Oid relation, const char* name) {
  return !pg::InOwnStatement() && (IsOwnTable(relation) || IsOwnView(relation)) && OwnsRelation(relation) &&
         IsOwnTrigger(relation, name);
}

void CheckGuard(Oid table, const char* trigger, const std::string& words) {
  if (trigger != nullptr && !Guard([&] { return IsOwnTrigger(table, trigger); })) {
    return;
  }
  switch (Guard([table] { return KeptBy(table); })) {
    case Kept::kEvents:
      if (IsSettledHere()) {
        JudgeGuards(words + " " + NameOf(table));
      }
      break;
    case Kept::kRows:
      if (IsSettledHere()) {
        RefuseUnguarded(table, words);
      }
      break;
    case Kept::kMarks:
      if (HasRows(table)) {
        RefuseUnguarded(table, words);
      }
      break;
  }
}

bool GoesWithExtension(Oid trigger) {
  if (getAutoExtensionsOfObject(TriggerRelationId, trigger) == NIL || pg::InOwnStatement()) {
    return false;
  }
  const TriggerRow found = ReadTrigger(trigger, nullptr);
  return (IsOwnTable(found.table) || IsOwnView(found.table)) && pg::IsOurSchema(get_func_namespace(found.function));
}

void CheckTakenTrigger(Oid trigger) {
  const Oid table = Guard([trigger] { return ReadTrigger(trigger, nullptr).table; });
  if (Guard([table] { return IsOwnView(table); })) {
    RefuseShape(table, "drop a trigger of");
  } else {
    CheckGuard(table, nullptr, "drop a trigger of");
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
    const Oid view = FindRelation(relation);
    if (OidIsValid(table)) {
      CheckGuard(table, strVal(llast(names)), "drop a trigger of");
    } else if (Guard([view, names] { return AltersOwnTrigger(view, strVal(llast(names))); })) {
      RefuseShape(view, "drop a trigger of");
    }
  }
}

bool CallsForUser(const ObjectAccess& access) {
  return !static_cast<ObjectAccessPostCreate*>(access.argument)->is_internal;
}

void CheckMadeTrigger(const ObjectAccess& access) {
  JudgeTrigger(access.object);
}

}  // namespace outbox::admin
