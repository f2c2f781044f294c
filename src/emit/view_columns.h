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
  kViewColumns
};

}  // namespace outbox::emit
