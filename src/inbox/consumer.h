// Who receives [P]: a consumer is a name, which needs no registration, and roles may receive in the name of some or of
// all: outbox_internal.receive_right, see outbox.grant_receive() and pg/rights.h. Plain.
#pragma once

#include "pg/prelude.h"

namespace outbox::inbox {

// An argument that must not be NULL: `what` is its name. Raises 22004. Of what comes with an event.
void RefuseNull(bool null, const char* function, const char* what);
// The same, of what a person types, who is shown how.
void RefuseNullName(bool null, const char* function, const char* what, const char* example);

inline constexpr int kLongestConsumer = 100;
inline constexpr int kLongestStream = 500;
// Raise 22023 for what is no name of a consumer, of a stream.
void CheckConsumerName(const text* consumer);
void CheckStreamName(const text* stream);
// For a consumer the same, and 42501 where the current role may not receive in its name.
void CheckConsumerRight(const text* consumer);
// The same, and 25006 on a standby, 25000 in parallel mode.
void CheckConsumer(const text* consumer, const char* function);
// What has marked something new is on disk when it has committed, whatever synchronous_commit says: the caller
// acknowledges to the broker then, and what a crash took back would not come again. So is what takes marks back: the
// caller sends those events again then, and with their marks back they would be dropped.
void BeOnDiskAtCommit(bool changed);

}  // namespace outbox::inbox
