// Routes that are changed or dropped by hand: their names checked, audited, and workers are told [P].
#include "admin/common/operation.h"
#include "admin/common/query.h"
#include "admin/common/route_audit.h"
#include "admin/common/route_name.h"
#include "admin/guard/loss.h"
#include "pg/entry.h"
#include "pg/schemas.h"
#include "pg/transaction.h"
#include "pg/transaction_end.h"

extern "C" {
#include "commands/trigger.h"
#include "executor/spi.h"
#include "utils/fmgroids.h"
}

namespace outbox::admin {

namespace {

// As a literal of the table's type.
std::string RowText(HeapTuple row, TupleDesc columns) {
  return pg::Guard([row, columns]() -> const char* {
    return OidOutputFunctionCall(F_RECORD_OUT, heap_copy_tuple_as_datum(row, columns));
  });
}

std::string NameOf(HeapTuple route, TupleDesc columns) {
  return pg::Guard(
      [route, columns]() -> const char* { return SPI_getvalue(route, columns, SPI_fnumber(columns, "name")); });
}

constexpr pg::TriggerUse kUse = {"outbox_internal.note_route()",
                                 [](const TriggerData& trigger) {
                                   return TRIGGER_FIRED_BY_TRUNCATE(trigger.tg_event)
                                              ? TRIGGER_FIRED_BEFORE(trigger.tg_event) != 0
                                              : TRIGGER_FIRED_AFTER(trigger.tg_event) &&
                                                    TRIGGER_FIRED_FOR_ROW(trigger.tg_event) &&
                                                    !TRIGGER_FIRED_BY_INSERT(trigger.tg_event);
                                 },
                                 "an AFTER UPDATE OR DELETE trigger FOR EACH ROW, or a BEFORE TRUNCATE trigger"};

}  // namespace

}  // namespace outbox::admin

using namespace outbox::admin;

// After a row of outbox.route was changed by hand, before it is truncated.
OUTBOX_FUNCTION(outbox_note_route) {
  const TriggerData* trigger = outbox::pg::TriggerOf(fcinfo, kUse);
  if (outbox::pg::InOwnStatement() || !StateTablesExist()) {
    return Datum{0};
  }
  if (RelationGetRelid(trigger->tg_relation) !=
      outbox::pg::Guard([] { return outbox::pg::FindOurRelation("route"); })) {
    outbox::pg::RefuseRelation(*trigger, kUse, "the table outbox.route");
  }
  if (TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event)) {
    for (const Row& route : RunSql(Access::kWrite, "SELECT r::text FROM outbox.route r ORDER BY r.name")) {
      AuditRouteByHand(route[0].value(), Cell(), "TRUNCATE");
    }
  } else {
    const TupleDesc columns = RelationGetDescr(trigger->tg_relation);
    const bool deletes = TRIGGER_FIRED_BY_DELETE(trigger->tg_event);
    if (!deletes && NameOf(trigger->tg_newtuple, columns) != NameOf(trigger->tg_trigtuple, columns)) {
      CheckRouteName(NameOf(trigger->tg_newtuple, columns));
    }
    const std::string from = RowText(trigger->tg_trigtuple, columns);
    AuditRouteByHand(from, deletes ? Cell() : Cell(RowText(trigger->tg_newtuple, columns)),
                     deletes ? "DELETE" : "UPDATE");
  }
  outbox::pg::NoteConfigChange();
  return Datum{0};
}
