// The columns of the view outbox.event, in order [-].
#pragma once

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

}  // namespace outbox::emit
