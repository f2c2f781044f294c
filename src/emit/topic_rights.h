// Which roles may emit to which topics [P]: outbox_internal.emit_right, see outbox.grant_emit() and pg/rights.h. Plain
// code.
#pragma once

#include "emit/check.h"

namespace outbox::emit {

// Raises 42501.
void CheckTopicRight(const NewEvent* event);
// Whether nothing that the role emits is let through: see topic_rights.cpp.
bool EmitsNothing(Oid role);
// Whether what it emits to this topic is let through.
bool EmitsTo(Oid role, const char* topic);

}  // namespace outbox::emit
