// What the view outbox.event shows [P]: the events of the current transaction, through the foreign table
// outbox_internal.own_event. A foreign table and not a function, because the planner tells it what is asked for: `id =
// ...`, `id IN (...)` and `id = ANY (...)` are looked up, and only the columns that are wanted are made. A plain view
// over outbox_internal.log would lock every day table and starve the keeper's drops. Plain code.
#include "base/media_type.h"
#include "days/day_table.h"
#include "emit/arguments.h"
#include "emit/header.h"
#include "emit/is_json.h"
#include "emit/own_events.h"
#include "emit/view_columns.h"
#include "pg/entry.h"

extern "C" {
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#endif
#include "executor/executor.h"
#include "foreign/fdwapi.h"
#include "mb/pg_wchar.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"
#include "utils/array.h"
#include "utils/typcache.h"
}

namespace outbox::emit {

using enum days::LogColumn;

namespace {

// --- one row ---

enum class As { kText, kJsonb };

// In the server's encoding; 0: it cannot be. What is emitted is delivered as it came, so it can hold characters that
// the database has not, U+0000, or numbers and depths beyond jsonb: whoever reads it back does not fail of that.
Datum TryRead(const bytea* payload, As as) {
  volatile Datum read = 0;
  MemoryContext context = CurrentMemoryContext;
  PG_TRY();
  {
    const int size = static_cast<int>(Size(payload));
    char* body = pg_any_to_server(pnstrdup(Bytes(payload), size), size, PG_UTF8);
    read = as == As::kJsonb ? JsonbPGetDatum(ReadJsonb(body)) : CStringGetTextDatum(body);
  }
  PG_CATCH();
  {
    if (!IsOfDocument(geterrcode())) {
      PG_RE_THROW();
    }
    MemoryContextSwitchTo(context);
    FlushErrorState();
  }
  PG_END_TRY();
  return read;
}

Datum AsText(bytea* payload) {
  if (GetDatabaseEncoding() == PG_UTF8) {
    const bool valid = pg_verify_mbstr(PG_UTF8, Bytes(payload), static_cast<int>(Size(payload)), true);
    return valid ? PointerGetDatum(payload) : 0;
  }
  return TryRead(payload, As::kText);
}

// jsonb would make very long ones of small numbers.
Datum AsJsonb(const bytea* payload) {
  return HoldsHugeNumber(payload) ? 0 : TryRead(payload, As::kJsonb);
}

// The body in that one of the three columns that fits it; none for a tombstone. JSON under a content type that says so
// came as payload or as payload_text: it is in both, so that whoever reads back what he wrote finds it where he left
// it. JSON that jsonb cannot hold came as json, and is text; text that the database's encoding has not came as bytes.
void ShowBody(const Datum* row, const bool* row_nulls, Datum* values, bool* nulls) {
  if (row_nulls[kPayload]) {
    return;
  }
  bytea* payload = DatumGetByteaPP(row[kPayload]);
  const bool typed = !row_nulls[kContentType];
  const std::string_view type = typed ? View(DatumGetTextPP(row[kContentType])) : std::string_view();
  const auto show = [&](ViewColumn column, Datum value) {
    values[column] = value;
    nulls[column] = value == 0;
    return value != 0;
  };
  if (!typed && show(kViewPayload, AsJsonb(payload))) {
    return;
  }
  if ((typed && !SaysText(type)) || !show(kViewPayloadText, AsText(payload))) {
    show(kViewPayloadBytes, PointerGetDatum(payload));
  } else if (typed && SaysJson(type)) {
    show(kViewPayload, AsJsonb(payload));
  }
}

// Columns that are headers. A version of another form was given as such, and is there only.
void ShowSchema(Jsonb* headers, Datum* values, bool* nulls) {
  NewEvent event = {};
  event.headers = headers;
  const char* dataschema = HeaderOf(&event, "dataschema");
  nulls[kViewDataschema] = dataschema == nullptr;
  values[kViewDataschema] = dataschema == nullptr ? static_cast<Datum>(0) : CStringGetTextDatum(dataschema);
  const char* version = HeaderOf(&event, "schema_version");
  const bool number = version != nullptr && version[0] != '\0' && strlen(version) <= 9 &&
                      strspn(version, "0123456789") == strlen(version);
  nulls[kViewSchemaVersion] = !number;
  values[kViewSchemaVersion] = Int32GetDatum(number ? atoi(version) : 0);
}

// Points into `row`, or allocates in the current memory context.
void ShowRow(HeapTuple row, TupleDesc desc, bool body, Datum* values, bool* nulls) {
  static constexpr struct {
    ViewColumn view;
    days::LogColumn log;
  } kSame[] = {
      {kViewId, kId},
      {kViewAggregateType, kAggregateType},
      {kViewAggregateId, kAggregateId},
      {kViewEventType, kEventType},
      {kViewHeaders, kHeaders},
      {kViewTopic, kTopic},
      {kViewCreatedAt, kCreatedAt},
      {kViewContentType, kContentType},
      {kViewDeliverAt, kDeliverAt},
  };
  Datum log_values[kLogColumns];
  bool log_nulls[kLogColumns];
  heap_deform_tuple(row, days::FirstColumns(desc, kLogColumns), log_values, log_nulls);
  for (const auto& column : kSame) {
    values[column.view] = log_values[column.log];
    nulls[column.view] = log_nulls[column.log];
  }
  for (ViewColumn column : {kViewPayload, kViewPayloadText, kViewPayloadBytes}) {
    values[column] = static_cast<Datum>(0);
    nulls[column] = true;
  }
  nulls[kViewDedupeKey] = true;
  ShowSchema(log_nulls[kHeaders] ? nullptr : DatumGetJsonbP(log_values[kHeaders]), values, nulls);
  if (body) {
    ShowBody(log_values, log_nulls, values, nulls);
  }
}

// --- planning ---

bool IsUuidEquality(Oid op) {
  return op == lookup_type_cache(UUIDOID, TYPECACHE_EQ_OPR)->eq_opr;
}

bool IsId(Node* node, Index relation) {
  return IsA(node, Var) && castNode(Var, node)->varno == static_cast<int>(relation) &&
         castNode(Var, node)->varattno == kViewId + 1 && castNode(Var, node)->varlevelsup == 0;
}

// Whether the expression can be computed once, before the first row.
bool IsKnown(Node* node) {
  return !contain_var_clause(node) && !contain_volatile_functions(node) && !contain_subplans(node);
}

// Adds what `id` must be one of to `ids`, expressions of type uuid and uuid[]; false if the clause says nothing of
// that. NOLINTNEXTLINE(misc-no-recursion): as deep as the query was written, and the planner has been through it
bool TakeIds(Node* clause, Index relation, List** ids) {
  if (is_orclause(clause)) {
    ListCell* cell = nullptr;
    foreach (cell, castNode(BoolExpr, clause)->args) {
      if (!TakeIds(static_cast<Node*>(lfirst(cell)), relation, ids)) {
        return false;
      }
    }
    return true;
  }
  if (IsA(clause, OpExpr) && IsUuidEquality(castNode(OpExpr, clause)->opno)) {
    Node* left = static_cast<Node*>(linitial(castNode(OpExpr, clause)->args));
    Node* right = static_cast<Node*>(lsecond(castNode(OpExpr, clause)->args));
    Node* other = IsId(left, relation) ? right : left;
    if ((IsId(left, relation) || IsId(right, relation)) && IsKnown(other)) {
      *ids = lappend(*ids, other);
      return true;
    }
  }
  if (IsA(clause, ScalarArrayOpExpr)) {
    ScalarArrayOpExpr* any = castNode(ScalarArrayOpExpr, clause);
    Node* array = static_cast<Node*>(lsecond(any->args));
    if (any->useOr && IsUuidEquality(any->opno) && IsId(static_cast<Node*>(linitial(any->args)), relation) &&
        IsKnown(array)) {
      *ids = lappend(*ids, array);
      return true;
    }
  }
  return false;
}

// NIL: no clause says which ids.
List* WantedIds(const RelOptInfo* rel) {
  ListCell* cell = nullptr;
  foreach (cell, rel->baserestrictinfo) {
    List* ids = NIL;
    if (TakeIds(reinterpret_cast<Node*>(lfirst_node(RestrictInfo, cell)->clause), rel->relid, &ids)) {
      return ids;
    }
  }
  return NIL;
}

bool WantsBody(const RelOptInfo* rel) {
  Bitmapset* used = nullptr;
  pull_varattnos(reinterpret_cast<Node*>(rel->reltarget->exprs), rel->relid, &used);
  ListCell* cell = nullptr;
  foreach (cell, rel->baserestrictinfo) {
    pull_varattnos(reinterpret_cast<Node*>(lfirst_node(RestrictInfo, cell)->clause), rel->relid, &used);
  }
  for (int column : {0, kViewPayload + 1, kViewPayloadText + 1, kViewPayloadBytes + 1}) {  // 0: the whole row
    if (bms_is_member(column - FirstLowInvalidHeapAttributeNumber, used)) {
      return true;
    }
  }
  return false;
}

// When a statement is planned it is unknown how much its transaction will have emitted.
constexpr double kGuessedEvents = 10;

void GetRelSize(PlannerInfo* root, RelOptInfo* rel, Oid) {
  rel->fdw_private = WantedIds(rel);
  rel->tuples = kGuessedEvents;
  rel->rows =
      clamp_row_est(kGuessedEvents * clauselist_selectivity(root, rel->baserestrictinfo, 0, JOIN_INNER, nullptr));
}

void GetPaths(PlannerInfo* root, RelOptInfo* rel, Oid) {
  double looked_at = rel->fdw_private == nullptr ? kGuessedEvents : 1;
  Cost cost = looked_at * (cpu_tuple_cost + cpu_index_tuple_cost + rel->baserestrictcost.per_tuple);
  add_path(rel, reinterpret_cast<Path*>(create_foreignscan_path(root, rel, nullptr, rel->rows,
#if PG_VERSION_NUM >= 180000
                                                                0,
#endif
                                                                0, cost, NIL, rel->lateral_relids, nullptr,
#if PG_VERSION_NUM >= 170000
                                                                NIL,
#endif
                                                                NIL)));
}

// All clauses are checked again on the rows found: there are few, and it keeps rechecks of locked rows simple.
ForeignScan* GetPlan(PlannerInfo*, RelOptInfo* rel, Oid, ForeignPath*, List* targets, List* clauses, Plan* outer) {
  List* ids = static_cast<List*>(rel->fdw_private);
  return make_foreignscan(targets, extract_actual_clauses(clauses, false), rel->relid, ids,
                          list_make1_int(WantsBody(rel) ? 1 : 0), NIL, NIL, outer);
}

// --- running ---

struct Running {
  Oid reader;  // as of now, whoever then fetches
  List* ids;   // states of expressions
  bool body;
  MemoryContext context;  // of one pass
  OwnScan* scan;
};

// Whoever may use the wrapper can make another foreign table of it.
void CheckColumns(Relation table) {
  if (!HasViewColumns(RelationGetDescr(table))) {
    ereport(ERROR, (errcode(ERRCODE_FDW_INVALID_COLUMN_NUMBER),
                    errmsg("foreign table \"%s\" has other columns than outbox_internal.own_event",
                           RelationGetRelationName(table)),
                    errdetail("Foreign-data wrapper outbox_own_event has these columns and no others, in this order."),
                    errhint("Read the view outbox.event, which shows the events of the current transaction.")));
  }
}

void Begin(ForeignScanState* node, int flags) {
  CheckColumns(node->ss.ss_currentRelation);
  if ((flags & EXEC_FLAG_EXPLAIN_ONLY) != 0) {
    return;
  }
  ForeignScan* plan = castNode(ForeignScan, node->ss.ps.plan);
  Running* running = static_cast<Running*>(palloc0(sizeof(Running)));
  running->reader = GetUserId();
  running->ids = ExecInitExprList(plan->fdw_exprs, &node->ss.ps);
  running->body = linitial_int(plan->fdw_private) != 0;
  running->context = AllocSetContextCreate(CurrentMemoryContext, "outbox own events", ALLOCSET_SMALL_SIZES);
  node->fdw_state = running;
}

struct Ids {
  pg_uuid_t* ids;
  int count;
  int room;
};

void AddId(Ids* to, Datum id) {
  if (to->count == to->room) {
    to->room = Max(4, 2 * to->room);
    size_t size = to->room * sizeof(pg_uuid_t);
    to->ids = static_cast<pg_uuid_t*>(to->ids == nullptr ? palloc(size) : repalloc(to->ids, size));
  }
  to->ids[to->count++] = *DatumGetUUIDP(id);
}

// NULL is no id.
Ids EvaluateIds(const Running* running, ExprContext* econtext) {
  Ids wanted = {};
  ListCell* cell = nullptr;
  foreach (cell, running->ids) {
    ExprState* state = static_cast<ExprState*>(lfirst(cell));
    bool isnull = false;
    Datum value = ExecEvalExpr(state, econtext, &isnull);
    if (isnull) {
      continue;
    }
    if (exprType(reinterpret_cast<Node*>(state->expr)) == UUIDOID) {
      AddId(&wanted, value);
      continue;
    }
    Datum* elements = nullptr;
    bool* nulls = nullptr;
    int count = 0;
    deconstruct_array(DatumGetArrayTypeP(value), UUIDOID, UUID_LEN, false, TYPALIGN_CHAR, &elements, &nulls, &count);
    for (int i = 0; i < count; i++) {
      if (!nulls[i]) {
        AddId(&wanted, elements[i]);
      }
    }
  }
  if (wanted.count > 1) {
    qsort(wanted.ids, wanted.count, sizeof(pg_uuid_t), CompareIds);
    int kept = 1;
    for (int i = 1; i < wanted.count; i++) {
      if (CompareIds(&wanted.ids[kept - 1], &wanted.ids[i]) != 0) {
        wanted.ids[kept++] = wanted.ids[i];
      }
    }
    wanted.count = kept;
  }
  return wanted;
}

void BeginPass(const ForeignScanState* node, Running* running) {
  CommandId before = node->ss.ps.state->es_snapshot->curcid;
  MemoryContext caller = MemoryContextSwitchTo(running->context);
  if (running->ids == NIL) {
    running->scan = BeginOwnScan(running->reader, before);
  } else {
    Ids wanted = EvaluateIds(running, node->ss.ps.ps_ExprContext);
    running->scan = BeginOwnScan(running->reader, before, wanted.ids, wanted.count);
  }
  MemoryContextSwitchTo(caller);
}

// Returns the next row, in memory that is reset before the one after it.
TupleTableSlot* Iterate(ForeignScanState* node) {
  Running* running = static_cast<Running*>(node->fdw_state);
  TupleTableSlot* slot = node->ss.ss_ScanTupleSlot;
  ExecClearTuple(slot);
  if (running->scan == nullptr) {
    BeginPass(node, running);
  }
  TupleDesc desc = nullptr;
  HeapTuple row = NextOwn(running->scan, &desc);
  if (row != nullptr) {
    ShowRow(row, desc, running->body, slot->tts_values, slot->tts_isnull);
    ExecStoreVirtualTuple(slot);
  }
  return slot;
}

void EndPass(Running* running) {
  if (running->scan != nullptr) {
    EndOwnScan(running->scan);
    running->scan = nullptr;
    MemoryContextReset(running->context);
  }
}

void ReScan(ForeignScanState* node) {
  EndPass(static_cast<Running*>(node->fdw_state));
}

void End(ForeignScanState* node) {
  if (node->fdw_state != nullptr) {
    EndPass(static_cast<Running*>(node->fdw_state));
  }
}

void Explain(ForeignScanState* node, ExplainState* explain) {
  ForeignScan* plan = castNode(ForeignScan, node->ss.ps.plan);
  ExplainPropertyText("Own Events", plan->fdw_exprs == NIL ? "all" : "by id", explain);
}

Datum ScanRoutines() {
  FdwRoutine* routines = makeNode(FdwRoutine);
  routines->GetForeignRelSize = GetRelSize;
  routines->GetForeignPaths = GetPaths;
  routines->GetForeignPlan = GetPlan;
  routines->BeginForeignScan = Begin;
  routines->IterateForeignScan = Iterate;
  routines->ReScanForeignScan = ReScan;
  routines->EndForeignScan = End;
  routines->ExplainForeignScan = Explain;
  return PointerGetDatum(routines);
}

// What 0.1's view reads: a database that has not been updated has it.
Datum OwnEvents(FunctionCallInfo fcinfo) {
  InitMaterializedSRF(fcinfo, 0);
  ReturnSetInfo* result = reinterpret_cast<ReturnSetInfo*>(fcinfo->resultinfo);
  MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "outbox event row", ALLOCSET_DEFAULT_SIZES);
  OwnScan* scan = BeginOwnScan(GetUserId(), GetActiveSnapshot()->curcid);
  TupleDesc desc = nullptr;
  for (HeapTuple row = nullptr; (row = NextOwn(scan, &desc)) != nullptr;) {
    Datum values[kViewColumns];
    bool nulls[kViewColumns];
    MemoryContext caller = MemoryContextSwitchTo(scratch);
    ShowRow(row, desc, true, values, nulls);
    tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
    MemoryContextSwitchTo(caller);
    MemoryContextReset(scratch);
  }
  EndOwnScan(scan);
  return 0;
}

}  // namespace

}  // namespace outbox::emit

OUTBOX_FUNCTION(outbox_own_events) {
  return outbox::emit::OwnEvents(fcinfo);
}
OUTBOX_FUNCTION(outbox_own_event_scan) {
  return outbox::emit::ScanRoutines();
}
