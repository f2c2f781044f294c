// The columns of the view outbox.event, in order, and of the foreign table that it reads [P].
#pragma once

#include "pg/prelude.h"

namespace outbox::emit {

enum ViewColumn : int {
  kViewId,
  kViewAggregateType,
  kViewAggregateId,
  kViewEventType,
  kViewPayload,
  kViewHeaders,
  kViewTopic,
  kViewCreatedAt,
  kViewContentType,
  kViewPayloadText,
  kViewPayloadBytes,
  kViewDeliverAt,
  kViewColumnsOf01,  // of a database that has not been updated yet
  kViewDedupeKey = kViewColumnsOf01,
  kViewSchemaVersion,
  kViewDataschema,
  kViewColumns
};

// Whether a relation has the first `count` of these columns, of the same types, and no other: its rows are put together
// and taken apart by number. Plain.
bool HasViewColumns(TupleDesc desc, int count = kViewColumns);

}  // namespace outbox::emit
