#include "admin/operate/foreign_event.h"

extern "C" {
#include "utils/jsonb.h"
}

namespace outbox::admin {

void FillForeignEvent(HeapTuple row, TupleDesc columns, int first, emit::NewEvent* event) {
  bool null = true;
  *event = {};
  Datum id = SPI_getbinval(row, columns, first, &null);
  event->own_id = null ? nullptr : DatumGetUUIDP(id);
  event->aggregate_type = Detoasted<text>(row, columns, first + 1);
  event->aggregate_id = Detoasted<text>(row, columns, first + 2);
  event->event_type = Detoasted<text>(row, columns, first + 3);
  event->payload = Detoasted<bytea>(row, columns, first + 4);
  event->tombstone = event->payload == nullptr;
  event->content_type = Detoasted<text>(row, columns, first + 5);
  Datum headers = SPI_getbinval(row, columns, first + 6, &null);
  event->headers = null ? nullptr : DatumGetJsonbP(headers);
  event->topic = Detoasted<text>(row, columns, first + 7);
  Datum deliver_at = SPI_getbinval(row, columns, first + 8, &null);
  event->delayed = !null;
  event->deliver_at = null ? 0 : DatumGetTimestampTz(deliver_at);
}

}  // namespace outbox::admin
