// An outbox that is a copy [P]: it keeps what is emitted, and publishes nothing before outbox.adopt().
#pragma once

namespace outbox::emit {

// Says so to whoever emits in one, once per session. Plain.
void WarnInCopy();

}  // namespace outbox::emit
