// The secret of order keys [P]: base/order_key.h says why there is one.
#pragma once

#include "pg/prelude.h"

namespace outbox::pg {

// Has OrderKey() go by the secret of the database's installation; call before it is used, in a transaction. Reads the
// table only where the installation is another than at the last call. Plain.
void LoadKeySecret();

}  // namespace outbox::pg
