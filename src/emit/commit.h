// What happens when a transaction that emitted ends [P].
#pragma once

namespace outbox::emit {

// Once per backend, from _PG_init: the list of transaction callbacks is never de-duplicated.
void RegisterTransactionCallbacks();

}  // namespace outbox::emit
