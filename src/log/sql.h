// How this folder runs SQL [P]: what src/pg has for it, by its short names.
#pragma once

#include "pg/sql.h"

namespace outbox::log {

using namespace pg::sql;

}  // namespace outbox::log
