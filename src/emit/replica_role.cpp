#include "emit/replica_role.h"

#include "pg/schemas.h"

extern "C" {
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"
}

namespace outbox::emit {

namespace {

ExecutorStart_hook_type previous_hook = nullptr;

bool InReplicaRole() {
  return SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;
}

bool IsEventView(Oid relation) {
  Oid schema = get_namespace_oid(pg::kSchema, true);
  return OidIsValid(schema) && get_relname_relid("event", schema) == relation &&
         OidIsValid(get_extension_oid("outbox", true));
}

// The executor works on a copy of the relation's triggers that is this query's own.
void FireEventTriggers(EState* estate) {
  for (int i = 0; i < list_length(estate->es_opened_result_relations); i++) {
    auto* result = static_cast<ResultRelInfo*>(list_nth(estate->es_opened_result_relations, i));
    TriggerDesc* triggers = result->ri_TrigDesc;
    if (triggers == nullptr || result->ri_RelationDesc->rd_rel->relkind != RELKIND_VIEW ||
        !IsEventView(RelationGetRelid(result->ri_RelationDesc))) {
      continue;
    }
    for (int t = 0; t < triggers->numtriggers; t++) {
      if (triggers->triggers[t].tgenabled == TRIGGER_FIRES_ON_ORIGIN) {
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
  return InReplicaRole() && IsEventView(relation);
}

}  // namespace outbox::emit
