// Which session has a parked event locked [P]: it cannot go before that ends.
#pragma once

#include "admin/common/query.h"

namespace outbox::admin {

// `xmax`: of the row, as text. "session 123 has it locked", "a prepared transaction has it locked"; nothing: nobody
// has, or a worker for a moment, or several sessions share it. Throws PgError.
Cell HolderOfRow(const Cell& xmax);

}  // namespace outbox::admin
