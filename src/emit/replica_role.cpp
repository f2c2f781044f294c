#include "emit/replica_role.h"

#include "pg/schemas.h"

extern "C" {
#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"
#include "utils/lsyscache.h"
}

namespace outbox::emit {

namespace {

ExecutorStart_hook_type previous_hook = nullptr;

bool InReplicaRole() {
  return SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;
}

bool IsEventView(Oid relation) {
  Oid schema = get_namespace_oid(pg::kSchema, true);
  return OidIsValid(schema) &&
         (get_relname_relid("event", schema) == relation || get_relname_relid("outboxevent", schema) == relation) &&
         OidIsValid(get_extension_oid("outbox", true));
}

// Of a view of somebody's own.
bool Emits(const Trigger& trigger) {
  const char* name = get_func_name(trigger.tgfoid);
  return name != nullptr && (strcmp(name, "emit_outboxevent") == 0 || strcmp(name, "event_insert") == 0) &&
         pg::IsOurSchema(get_func_namespace(trigger.tgfoid));
}

// Whether it has a trigger that would emit its rows, and does not fire under this role.
bool HasSilentTrigger(Relation view) {
  const TriggerDesc* triggers = view->trigdesc;
  for (int t = 0; triggers != nullptr && t < triggers->numtriggers; t++) {
    const Trigger& trigger = triggers->triggers[t];
    if (TRIGGER_FOR_INSERT(trigger.tgtype) && trigger.tgenabled == TRIGGER_FIRES_ON_ORIGIN && Emits(trigger)) {
      return true;
    }
  }
  return false;
}

// The executor works on a copy of the relation's triggers that is this query's own.
void FireEventTriggers(EState* estate) {
  for (int i = 0; i < list_length(estate->es_opened_result_relations); i++) {
    auto* result = static_cast<ResultRelInfo*>(list_nth(estate->es_opened_result_relations, i));
    TriggerDesc* triggers = result->ri_TrigDesc;
    if (triggers == nullptr || result->ri_RelationDesc->rd_rel->relkind != RELKIND_VIEW) {
      continue;
    }
    const bool ours = IsEventView(RelationGetRelid(result->ri_RelationDesc));
    for (int t = 0; t < triggers->numtriggers; t++) {
      if (triggers->triggers[t].tgenabled == TRIGGER_FIRES_ON_ORIGIN && (ours || Emits(triggers->triggers[t]))) {
        triggers->triggers[t].tgenabled = TRIGGER_FIRES_ALWAYS;
      }
    }
  }
}

void OnExecutorStart(QueryDesc* query, int flags) {
  (previous_hook != nullptr ? previous_hook : standard_ExecutorStart)(query, flags);
  if (InReplicaRole() && query->estate != nullptr) {
    FireEventTriggers(query->estate);
  }
}

}  // namespace

void InstallReplicaRoleHook() {
  previous_hook = ExecutorStart_hook;
  ExecutorStart_hook = OnExecutorStart;
}

bool InsertsWouldBeLost(Oid relation) {
  if (!InReplicaRole() || get_rel_relkind(relation) != RELKIND_VIEW) {
    return false;
  }
  if (IsEventView(relation)) {
    return true;
  }
  Relation view = try_relation_open(relation, AccessShareLock);
  const bool lost = view != nullptr && HasSilentTrigger(view);
  if (view != nullptr) {
    relation_close(view, AccessShareLock);
  }
  return lost;
}

}  // namespace outbox::emit
