// What a route may be called [P].
#pragma once

#include <string>

#include "admin/common/query.h"

namespace outbox::admin {

// Throws UserError with SQLSTATE and HINT.
std::string CheckRouteName(const Cell& name);

}  // namespace outbox::admin
