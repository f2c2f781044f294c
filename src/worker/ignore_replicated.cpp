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
  static constexpr outbox::pg::TriggerUse kUse = {"outbox_internal.ignore_replicated()",
                                                  [](const TriggerData& trigger) {
                                                    return TRIGGER_FIRED_FOR_ROW(trigger.tg_event) &&
                                                           TRIGGER_FIRED_BEFORE(trigger.tg_event);
                                                  },
                                                  "a BEFORE trigger FOR EACH ROW"};
  const TriggerData* trigger = outbox::pg::TriggerOf(fcinfo, kUse);
  if (IsLogicalWorker()) {
    return static_cast<Datum>(0);  // not done, and no error
  }
  return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? trigger->tg_newtuple : trigger->tg_trigtuple);
}
