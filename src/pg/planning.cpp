#include "pg/planning.h"

#include "pg/schemas.h"
#include "pg/transaction.h"

extern "C" {
#include "nodes/pathnodes.h"
#include "optimizer/plancat.h"
#include "utils/selfuncs.h"
}

namespace outbox::pg {

namespace {

constexpr double kRows = 1e6;
constexpr BlockNumber kPages = 50000;
constexpr BlockNumber kIndexPages = 5000;

get_relation_info_hook_type next_info = nullptr;
get_relation_stats_hook_type next_stats = nullptr;

bool IsParked(Oid relation) {
  return InOwnStatement() && relation == FindOurRelation("parked");
}

void TellSize(PlannerInfo* root, Oid relation, bool inherits, RelOptInfo* info) {
  if (next_info != nullptr) {
    next_info(root, relation, inherits, info);
  }
  if (!IsParked(relation)) {
    return;
  }
  info->pages = Max(info->pages, kPages);
  info->tuples = Max(info->tuples, kRows);
  for (int i = 0; i < list_length(info->indexlist); i++) {
    auto* index = static_cast<IndexOptInfo*>(list_nth(info->indexlist, i));
    index->pages = Max(index->pages, kIndexPages);
    index->tuples = Max(index->tuples, kRows);
  }
}

// True: what is in `variable` counts, and here that is nothing.
bool TellStatistics(PlannerInfo* root, RangeTblEntry* entry, AttrNumber column, VariableStatData* variable) {
  if (entry->rtekind == RTE_RELATION && IsParked(entry->relid)) {
    variable->statsTuple = nullptr;
    return true;
  }
  return next_stats != nullptr && next_stats(root, entry, column, variable);
}

}  // namespace

void InstallPlanningHooks() {
  next_info = get_relation_info_hook;
  get_relation_info_hook = TellSize;
  next_stats = get_relation_stats_hook;
  get_relation_stats_hook = TellStatistics;
}

}  // namespace outbox::pg
