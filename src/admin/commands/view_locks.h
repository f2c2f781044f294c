// LOCK TABLE of a view of outbox [P], by somebody who may emit through it.
#pragma once

#include "pg/prelude.h"

namespace outbox::admin {

void CheckLock(Node* statement);  // before it; throws
bool LocksView(Node* statement);  // plain

}  // namespace outbox::admin
