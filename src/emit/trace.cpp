#include "emit/trace.h"

#include "pg/settings.h"

namespace outbox::emit {

void AddTraceContext(NewEvent* event) {
  const char* traceparent = pg::settings.traceparent;
  if (traceparent == nullptr || traceparent[0] == '\0') {
    return;
  }
  char text[300];
  pg_snprintf(text, sizeof(text), "{\"traceparent\": \"%s\"}", traceparent);
  Datum ours = DirectFunctionCall1(jsonb_in, CStringGetDatum(text));
  if (event->headers != nullptr) {
    // The right-hand side wins: a traceparent that the caller passed stays.
    ours = DirectFunctionCall2(jsonb_concat, ours, JsonbPGetDatum(event->headers));
  }
  event->headers = DatumGetJsonbP(ours);
}

}  // namespace outbox::emit
