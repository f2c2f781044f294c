// An outbox that is a copy [P]: it keeps what is emitted, and publishes nothing before outbox.adopt().
#pragma once

namespace outbox::emit {

// Warns a session that emits in a copy, once. Plain.
void WarnInCopy();

}  // namespace outbox::emit
