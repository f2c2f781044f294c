#include "pg/planning.h"

#include "pg/schemas.h"
#include "pg/transaction.h"

extern "C" {
#include "nodes/pathnodes.h"
#include "optimizer/pathnode.h"
#include "optimizer/plancat.h"
#include "utils/selfuncs.h"
}

namespace outbox::pg {

namespace {

constexpr double kRows = 1e6;
constexpr BlockNumber kPages = 50000;
constexpr BlockNumber kIndexPages = 5000;

// 19 asks once for each relation, of whatever kind; those before it for each table.
#if PG_VERSION_NUM >= 190000
build_simple_rel_hook_type next_relation = nullptr;
#else
get_relation_info_hook_type next_relation = nullptr;
#endif
get_relation_stats_hook_type next_stats = nullptr;

bool IsParked(Oid relation) {
  return InOwnStatement() && relation == FindOurRelation("parked");
}

void TellSize(RelOptInfo* info) {
  info->pages = Max(info->pages, kPages);
  info->tuples = Max(info->tuples, kRows);
  for (int i = 0; i < list_length(info->indexlist); i++) {
    auto* index = static_cast<IndexOptInfo*>(list_nth(info->indexlist, i));
    index->pages = Max(index->pages, kIndexPages);
    index->tuples = Max(index->tuples, kRows);
  }
}

#if PG_VERSION_NUM >= 190000
void OfRelation(PlannerInfo* root, RelOptInfo* info, RangeTblEntry* entry) {
  if (next_relation != nullptr) {
    next_relation(root, info, entry);
  }
  if (entry->rtekind == RTE_RELATION && IsParked(entry->relid)) {
    TellSize(info);
  }
}
#else
void OfRelation(PlannerInfo* root, Oid relation, bool inherits, RelOptInfo* info) {
  if (next_relation != nullptr) {
    next_relation(root, relation, inherits, info);
  }
  if (IsParked(relation)) {
    TellSize(info);
  }
}
#endif

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
#if PG_VERSION_NUM >= 190000
  next_relation = build_simple_rel_hook;
  build_simple_rel_hook = OfRelation;
#else
  next_relation = get_relation_info_hook;
  get_relation_info_hook = OfRelation;
#endif
  next_stats = get_relation_stats_hook;
  get_relation_stats_hook = TellStatistics;
}

}  // namespace outbox::pg
