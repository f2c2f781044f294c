#include "emit/commit.h"

namespace outbox::emit {

void RegisterTransactionCallbacks() {}

}  // namespace outbox::emit
