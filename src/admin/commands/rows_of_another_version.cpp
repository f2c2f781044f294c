#include "admin/commands/rows_of_another_version.h"

#include "admin/common/query.h"
#include "admin/guard/loss.h"
#include "pg/entry.h"
#include "pg/schemas.h"
#include "pg/transaction.h"

extern "C" {
#include "executor/executor.h"
#include "nodes/execnodes.h"
}

namespace outbox::admin {

namespace {

using pg::Guard;

ExecutorStart_hook_type previous_start = nullptr;

// Of the log its days answer, each for its events.
void Judge(Oid table, const char* command, bool days_only) {
  if (Guard([] { return pg::InOwnStatement() || OtherVersion() == nullptr; }) || !StateTablesExist()) {
    return;
  }
  const std::string name = Guard([table]() -> const char* { return get_rel_name(table); });
  if (IsDayTable(table)) {
    JudgeDayTable(table, command);
  } else if (!days_only && IsStateTable(name.c_str()) && name != "log") {
    JudgeLoss(FindLoss({}), std::string(command) + " " + NameOf(table), true, kThereAre);
  }
}

// pg_upgrade and single-user mode rebuild and mend: nothing is to stand in their way. Plain.
bool IsAsked(Oid schema) {
  return IsUnderPostmaster && !IsBinaryUpgrade && pg::IsOurSchema(schema);
}

// What a statement changes, whichever part of it does. By UPDATE only the log loses something.
void OnExecutorStart(QueryDesc* query, int flags) {
  (previous_start != nullptr ? previous_start : standard_ExecutorStart)(query, flags);
  const bool within = query->plannedstmt->hasModifyingCTE;
  if ((query->operation == CMD_INSERT && !within) || query->estate == nullptr ||
      (flags & EXEC_FLAG_EXPLAIN_ONLY) != 0) {
    return;
  }
  const bool updates = query->operation == CMD_UPDATE && !within;
  const List* changed = query->estate->es_opened_result_relations;
  for (int i = 0; i < list_length(changed); i++) {
    Relation table = static_cast<const ResultRelInfo*>(list_nth(changed, i))->ri_RelationDesc;
    if (IsAsked(RelationGetNamespace(table))) {
      pg::Entry(&Judge, RelationGetRelid(table), updates ? "update" : "delete from", updates);
    }
  }
}

}  // namespace

bool EmptiesOurTable(const ObjectAccess& access) {
  return pg::IsOurSchema(get_rel_namespace(access.object));
}

void CheckEmptied(const ObjectAccess& access) {
  Judge(access.object, "truncate", false);
}

void InstallOtherVersionHook() {
  previous_start = ExecutorStart_hook;
  ExecutorStart_hook = OnExecutorStart;
}

}  // namespace outbox::admin
