// Whether bytes are JSON that jsonb takes [P]. Plain code.
#pragma once

#include "emit/new_event.h"

namespace outbox::emit {

// False also where it is nested so deeply that parsing could raise, and in a database that is not in UTF-8.
bool IsJson(const bytea* payload);

}  // namespace outbox::emit
