// The trigger function outbox.emit_row(aggregate_type, key_column [, event_type_prefix [, left_out ...]]) [P]: row
// changes become events without code. Plain code.
//
// Not SECURITY DEFINER: it reaches the log by itself, and turning a row into JSON can run functions of the table's
// owner (casts to json), which must not run with more rights than the writer has.
#include <algorithm>

#include "emit/arguments.h"
#include "emit/check.h"
#include "emit/insert.h"
#include "emit/one_text.h"
#include "pg/entry.h"
#include "pg/owner.h"
#include "pg/rights.h"
#include "pg/server_versions.h"
#include "pg/statement_settings.h"

extern "C" {
#include "access/genam.h"
#include "access/table.h"
#include "access/tupdesc.h"
#include "catalog/indexing.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/bytea.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#if PG_VERSION_NUM >= 180000
#include "rewrite/rewriteHandler.h"
#endif
}

namespace outbox::emit {

namespace {

constexpr pg::TriggerUse kUse = {
    "outbox.emit_row()",
    [](const TriggerData& trigger) {
      return TRIGGER_FIRED_AFTER(trigger.tg_event) && TRIGGER_FIRED_FOR_ROW(trigger.tg_event);
    },
    "an AFTER trigger FOR EACH ROW",
    "CREATE TRIGGER ... AFTER INSERT OR UPDATE OR DELETE ON ... FOR EACH ROW EXECUTE FUNCTION "
    "outbox.emit_row('order', 'id'); more arguments are the prefix of the event type and columns to leave out"};

TriggerData* CheckUse(FunctionCallInfo fcinfo) {
  TriggerData* trigger = pg::TriggerOf(fcinfo, kUse);
  const int given = trigger->tg_trigger->tgnargs;
  if (given < 2) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("outbox.emit_row() is not used as it must be"),
                    errdetail("Trigger \"%s\" has %d %s; the aggregate type and the key column are needed.",
                              trigger->tg_trigger->tgname, given, given == 1 ? "argument" : "arguments"),
                    errhint("Use it so: %s.", kUse.usage)));
  }
  return trigger;
}

int FindColumn(const TriggerData* trigger, const char* name) {
  int column = SPI_fnumber(RelationGetDescr(trigger->tg_relation), name);
  if (column <= 0) {
    ereport(
        ERROR,
        (errcode(ERRCODE_UNDEFINED_COLUMN),
         errmsg("column \"%s\" of table \"%s\" does not exist", name, RelationGetRelationName(trigger->tg_relation)),
         errdetail("It is an argument of trigger \"%s\", which calls outbox.emit_row().", trigger->tg_trigger->tgname),
         errhint("Drop the trigger and create it again, in one transaction: with the name that the column has now, or "
                 "without it if it was to be left out and is dropped. outbox.doctor() has the statements.")));
  }
  return column;
}

// The row with the values of its virtual generated columns (PostgreSQL 18), which a trigger's row does not have.
HeapTuple WithVirtualColumns(Relation table, HeapTuple row) {
#if PG_VERSION_NUM >= 180000
  TupleDesc desc = RelationGetDescr(table);
  if (row == nullptr || desc->constr == nullptr || !desc->constr->has_generated_virtual) {
    return row;
  }
  EState* state = CreateExecutorState();
  TupleTableSlot* slot = MakeSingleTupleTableSlot(desc, &TTSOpsHeapTuple);
  ExecStoreHeapTuple(row, slot, false);
  ExprContext* context = GetPerTupleExprContext(state);
  context->ecxt_scantuple = slot;
  Datum* values = static_cast<Datum*>(palloc(desc->natts * sizeof(Datum)));
  bool* nulls = static_cast<bool*>(palloc(desc->natts));
  heap_deform_tuple(row, desc, values, nulls);
  for (int i = 0; i < desc->natts; i++) {
    if (TupleDescAttr(desc, i)->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL) {
      ExprState* value = ExecPrepareExpr(castNode(Expr, build_generation_expression(table, i + 1)), state);
      values[i] = ExecEvalExprSwitchContext(value, context, &nulls[i]);
    }
  }
  HeapTuple whole = heap_form_tuple(desc, values, nulls);
  ExecDropSingleTupleTableSlot(slot);
  FreeExecutorState(state);
  return whole;
#else
  return row;
#endif
}

text* KeyOf(const TriggerData* trigger, HeapTuple row, int column) {
  TupleDesc desc = RelationGetDescr(trigger->tg_relation);
  bool null = false;
  const Datum value = SPI_getbinval(row, desc, column, &null);
  if (null) {
    return nullptr;
  }
  const Oid type = SPI_gettypeid(desc, column);
  const int level = PinText(type);
  text* key = CastToText(getBaseType(type), value);
  UnpinText(level);
  return key;
}

// A payload says the same, whichever session has written the row. Times have the session's zone, and say so. (Times
// that JSON has by themselves follow no style; those in a range do. The search path, which names of objects follow,
// stays: a cast to json is a function of the table's owner.)
constexpr pg::PinnedSetting kValueSettings[] = {{"DateStyle", "ISO"},
                                                {"IntervalStyle", "postgres"},
                                                {"extra_float_digits", "1"},
                                                {"bytea_output", "hex"},
                                                {"quote_all_identifiers", "off"},
                                                // Of rows with money. Setting it is slow.
                                                {"lc_monetary", "C"}};
constexpr size_t kWithoutMoney = 5;

bool IsPlainCurrency() {
  // (The variable's header wants ICU's, which a server's headers may be without.)
  const char* locale = GetConfigOption("lc_monetary", false, false);
  return strcmp(locale, "C") == 0 || strcmp(locale, "POSIX") == 0;
}

// `columns`: of the row, and maybe others.
text* JsonOf(Datum row, TupleDesc columns) {
  const bool usual = DateStyle == USE_ISO_DATES && IntervalStyle == INTSTYLE_POSTGRES && extra_float_digits > 0 &&
                     bytea_output == BYTEA_OUTPUT_HEX && !quote_all_identifiers;
  const bool money = !IsPlainCurrency() && HoldsMoney(columns);
  const std::span<const pg::PinnedSetting> all(kValueSettings);
  const int level = usual && !money ? 0 : pg::Pin(money ? all : all.first(kWithoutMoney));
  text* json = DatumGetTextPP(DirectFunctionCall1(row_to_json, row));
  if (level != 0) {
    AtEOXact_GUC(false, level);
  }
  return json;
}

// Which columns of a row are how in its record.
enum class InRecord : uint8 { kNot, kAsIs, kAsText };

// What is left out is not shown. jsonb is as the text that row_to_json() would make of it, and that one has no bound.
InRecord* ColumnsInRecord(const TriggerData* trigger) {
  TupleDesc desc = RelationGetDescr(trigger->tg_relation);
  auto* shown = static_cast<InRecord*>(palloc((desc->natts + 1) * sizeof(InRecord)));
  for (int i = 1; i <= desc->natts; i++) {
    const Form_pg_attribute column = TupleDescAttr(desc, i - 1);
    shown[i] = column->attisdropped                        ? InRecord::kNot
               : getBaseType(column->atttypid) == JSONBOID ? InRecord::kAsText
                                                           : InRecord::kAsIs;
  }
  for (int i = 3; i < trigger->tg_trigger->tgnargs; i++) {
    shown[FindColumn(trigger, trigger->tg_trigger->tgargs[i])] = InRecord::kNot;
  }
  return shown;
}

// The row as a record.
Datum RowDatum(const TriggerData* trigger, HeapTuple row) {
  TupleDesc desc = RelationGetDescr(trigger->tg_relation);
  const InRecord* shown = ColumnsInRecord(trigger);
  const InRecord* end = shown + 1 + desc->natts;
  const auto count = static_cast<int>(desc->natts - std::count(shown + 1, end, InRecord::kNot));
  if (trigger->tg_trigger->tgnargs <= 3 && std::find(shown + 1, end, InRecord::kAsText) == end) {
    return heap_copy_tuple_as_datum(row, desc);
  }
  Datum* values = static_cast<Datum*>(palloc(Max(count, 1) * sizeof(Datum)));
  bool* nulls = static_cast<bool*>(palloc(Max(count, 1)));
  TupleDesc columns = CreateTemplateTupleDesc(count);
  int at = 0;
  for (int i = 1; i <= desc->natts; i++) {
    if (shown[i] == InRecord::kNot) {
      continue;
    }
    values[at] = heap_getattr(row, i, desc, &nulls[at]);
    if (shown[i] == InRecord::kAsIs) {
      TupleDescCopyEntry(columns, at + 1, desc, i);
    } else {
      TupleDescInitEntry(columns, at + 1, NameStr(TupleDescAttr(desc, i - 1)->attname), JSONOID, -1, 0);
      values[at] = nulls[at] ? values[at] : PointerGetDatum(JsonbText(DatumGetJsonbP(values[at])));
    }
    at++;
  }
  return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(pg::FinishColumns(columns)), values, nulls));
}

// Whose right counts: the owner of the table that the trigger was made for. Neither those who write to it choose the
// topic, nor does who made the partition that they write to.
Oid FindEmitter(const TriggerData* trigger) {
  Oid table = RelationGetRelid(trigger->tg_relation);
  Oid next = trigger->tg_trigger->tgisclone ? trigger->tg_trigger->tgoid : InvalidOid;
  Relation triggers = OidIsValid(next) ? table_open(TriggerRelationId, AccessShareLock) : nullptr;
  while (OidIsValid(next)) {
    ScanKeyData key;
    ScanKeyInit(&key, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(next));
    SysScanDesc scan = systable_beginscan(triggers, TriggerOidIndexId, true, nullptr, 1, &key);
    HeapTuple tuple = systable_getnext(scan);
    next = InvalidOid;
    if (HeapTupleIsValid(tuple)) {
      const auto* form = reinterpret_cast<Form_pg_trigger>(GETSTRUCT(tuple));
      table = form->tgrelid;
      next = form->tgparentid;
    }
    systable_endscan(scan);
  }
  if (triggers != nullptr) {
    table_close(triggers, AccessShareLock);
  }
  return pg::OwnerOf(table);
}

// Looked for once in a statement.
Oid EmitterOf(FmgrInfo* call, const TriggerData* trigger) {
  if (call->fn_extra == nullptr) {
    auto* emitter = static_cast<Oid*>(MemoryContextAlloc(call->fn_mcxt, sizeof(Oid)));
    *emitter = FindEmitter(trigger);
    call->fn_extra = emitter;
  }
  return *static_cast<Oid*>(call->fn_extra);
}

void EmitRow(const TriggerData* trigger, Oid emitter, HeapTuple row, int key_column, const char* what) {
  char** arguments = trigger->tg_trigger->tgargs;
  bool prefixed = trigger->tg_trigger->tgnargs > 2 && arguments[2][0] != '\0';
  NewEvent event = {};
  event.aggregate_type = cstring_to_text(arguments[0]);
  event.aggregate_id = KeyOf(trigger, row, key_column);
  event.event_type = cstring_to_text(psprintf("%s.%s", prefixed ? arguments[2] : arguments[0], what));
  event.payload = TextBytes(JsonOf(RowDatum(trigger, row), RelationGetDescr(trigger->tg_relation)));
  event.emitter = emitter;
  // Nor do they read by the event what they may not read in the table: a cascade deletes rows that its caller never
  // saw. An error is read by the client, too, whoever is the current role (of a cascade, the table's owner, from
  // PostgreSQL 18 on).
  const bool readable = pg::MayReadAll(GetUserId(), trigger->tg_relation);
  event.shown_to = readable ? InvalidOid : trigger->tg_relation->rd_rel->relowner;
  event.unquoted = !readable || !pg::MayReadAll(GetOuterUserId(), trigger->tg_relation);
  CheckEvent(&event);
  InsertEvent(&event);
}

bool SameKey(const text* a, const text* b) {
  return a == b || (a != nullptr && b != nullptr && Size(a) == Size(b) && memcmp(Bytes(a), Bytes(b), Size(a)) == 0);
}

Datum RowTriggerMain(FunctionCallInfo fcinfo) {
  TriggerData* trigger = CheckUse(fcinfo);
  int key = FindColumn(trigger, trigger->tg_trigger->tgargs[1]);
  const Oid emitter = EmitterOf(fcinfo->flinfo, trigger);
  HeapTuple row = WithVirtualColumns(trigger->tg_relation, trigger->tg_trigtuple);
  if (!TRIGGER_FIRED_BY_UPDATE(trigger->tg_event)) {
    EmitRow(trigger, emitter, row, key, TRIGGER_FIRED_BY_INSERT(trigger->tg_event) ? "created" : "deleted");
    return static_cast<Datum>(0);
  }
  HeapTuple changed = WithVirtualColumns(trigger->tg_relation, trigger->tg_newtuple);
  if (SameKey(KeyOf(trigger, row, key), KeyOf(trigger, changed, key))) {
    EmitRow(trigger, emitter, changed, key, "updated");
  } else {
    // To consumers the row under its new key is a new object, and the one under the old key has to be deleted.
    EmitRow(trigger, emitter, row, key, "deleted");
    EmitRow(trigger, emitter, changed, key, "created");
  }
  return static_cast<Datum>(0);
}

}  // namespace

}  // namespace outbox::emit

OUTBOX_FUNCTION(outbox_emit_row) {
  return outbox::emit::RowTriggerMain(fcinfo);
}
