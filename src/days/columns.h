// The columns of outbox_internal.log and of every day table [-]. Emit and the reader both insist that a table begins
// with exactly these. What a user has added behind them (ADD COLUMN, perhaps dropped again) does not matter: emit()
// writes rows that end here, as if they were older than that column.
#pragma once

namespace outbox::days {

enum LogColumn : int {
  kCreatedAt,
  kId,
  kXid,
  kAggregateType,
  kAggregateId,
  kEventType,
  kPayload,
  kContentType,
  kHeaders,
  kTopic,
  kDeliverAt,
  kLogColumns
};

}  // namespace outbox::days
