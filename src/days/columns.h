// The columns of outbox.log and of every day table [-]. Emit and the reader both insist on exactly these.
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
