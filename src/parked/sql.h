// How this folder runs SQL [P]: what src/pg has for it, by its short names.
#pragma once

#include "pg/sql.h"

namespace outbox::parked {

using namespace pg::sql;

}  // namespace outbox::parked
