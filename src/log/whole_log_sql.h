// The whole log in SQL: its day tables and the spare one, as `l` [-].
#pragma once

// created_at in the WHERE clause still picks the day tables: the planner pulls this up.
#define OUTBOX_WHOLE_LOG                                                                                             \
  "(SELECT created_at, id, xid, aggregate_type, aggregate_id, event_type, payload, topic, tableoid AS source, ctid " \
  "AS "                                                                                                              \
  "place FROM outbox.log UNION ALL SELECT created_at, id, xid, aggregate_type, aggregate_id, event_type, payload, "  \
  "topic, tableoid, ctid FROM outbox.log_spare) l "
