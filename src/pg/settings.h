// Every setting of the extension [P]: one table in settings.cpp, one variable here. All have the prefix `outbox.`.
#pragma once

#include "pg/prelude.h"

namespace outbox::pg {

// What is done about a transaction that emitted and changed nothing else: see lone_emit.h.
enum class LoneEmit : int { kAllow, kWarn, kRefuse };
// What is done about an id that is older than what the inbox remembers: see inbox/marks.h.
enum class InboxExpired : int { kError, kSkip, kAccept };

// The trace context of what a session emits, where an event's own headers have none.
struct TraceSettings {
  char* traceparent;  // outbox.traceparent; empty: none
  char* tracestate;   // outbox.tracestate, which goes with it
  char* baggage;      // outbox.baggage
  bool from_comment;  // outbox.trace_from_comment: comments of statements count
};

struct InboxSettings {
  int retention_minutes;  // outbox.inbox_retention
  int expired;            // outbox.inbox_expired: an InboxExpired
};

struct Settings {
  bool enabled;    // outbox.enabled: may background workers publish at all
  char* instance;  // outbox.instance: what tells a file-level copy of a server apart from its original
  int reserved_processes = 3;
  int workers;            // outbox.workers: relay workers per database
  int retention_minutes;  // outbox.retention
  int dedupe_minutes;     // outbox.dedupe_retention
  int max_log_size_mb;    // outbox.max_log_size; 0: none
  int max_payload_size;   // outbox.max_payload_size, bytes
  int max_inflight_kb;    // outbox.max_inflight: unacknowledged bytes per worker and destination
  int sort_mem_kb;        // outbox.sort_mem: memory for one lane's window
  int poll_interval_ms;   // outbox.poll_interval: finds commits that could wake no worker (COMMIT PREPARED)
  int days_ahead;         // outbox.days_ahead: day tables made in advance
  bool allow_loss;        // outbox.allow_loss: undelivered events may be dropped, the log changed by hand
  int lone_emit;          // outbox.lone_emit: a LoneEmit
  bool allow_json_null;   // outbox.allow_json_null: a payload may be JSON null
  bool test_new_routes;   // outbox.test_new_routes: create_route() tries its server out
  TraceSettings trace;
  InboxSettings inbox;
  int max_databases;     // outbox.max_databases: slots in shared memory
  int max_lanes;         // outbox.max_lanes: slots in shared memory, over all databases
  int max_destinations;  // outbox.max_destinations: slots in shared memory, one for each relay worker and destination
  int max_series;        // outbox.max_series: routes that have figures of their own, once for each destination
};

extern Settings settings;

void DefineSettings();

}  // namespace outbox::pg
