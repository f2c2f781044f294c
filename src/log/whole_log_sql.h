// The whole log in SQL: its day tables and the spare one; give it an alias [-].
#pragma once

#define OUTBOX_LOG_PART(table)                                                                             \
  "SELECT created_at, id, xid, aggregate_type, aggregate_id, event_type, payload, content_type, headers, " \
  "topic, tableoid AS source, ctid AS place FROM outbox." table

// created_at in the WHERE clause still picks the day tables: the planner pulls this up.
#define OUTBOX_WHOLE_LOG "(" OUTBOX_LOG_PART("log") " UNION ALL " OUTBOX_LOG_PART("log_spare") ")"
