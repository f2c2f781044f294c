// Routes that know their topics (route option topics_known) [P]: an event that one of them would take to a topic that
// is not among those is refused, by its own topic as well as by one that the route's template makes of it. Plain code.
//
// A session reads outbox.route once, and again after a change: where no route has such a list, nothing more is done.
// What is emitted while a list changes may be past this; then the route makes a dead letter of it (TOPIC_NOT_KNOWN).
#pragma once

#include "emit/new_event.h"

namespace outbox::emit {

// Raises 22023.
void CheckTopicKnown(const NewEvent* event);

}  // namespace outbox::emit
