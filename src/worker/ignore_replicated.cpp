// Logical replication brings nothing into the tables of outbox [P]. Positions, owners, routes and the identity of
// another server would be taken for this one's; rows of the log are another matter (outbox_internal.divert). Plain
// code.
#include "pg/entry.h"

extern "C" {
#include "commands/trigger.h"
#include "replication/logicalworker.h"
}

// outbox_internal.ignore_replicated(): BEFORE ROW, ENABLE REPLICA. A restore under session_replication_role = replica
// is no subscription, and gets its rows.
OUTBOX_FUNCTION(outbox_ignore_replicated) {
  const TriggerData* trigger = outbox::pg::TriggerOf(fcinfo, "outbox_internal.ignore_replicated()");
  if (!TRIGGER_FIRED_FOR_ROW(trigger->tg_event) || !TRIGGER_FIRED_BEFORE(trigger->tg_event)) {
    ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                    errmsg("outbox_internal.ignore_replicated() must be fired BEFORE, FOR EACH ROW")));
  }
  if (IsLogicalWorker()) {
    return static_cast<Datum>(0);  // not done, and no error
  }
  return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? trigger->tg_newtuple : trigger->tg_trigtuple);
}
