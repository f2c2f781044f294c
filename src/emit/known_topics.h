// What routes say of an event while it is emitted [P]: one that a route takes is refused
//
// - if the route knows its topics (option topics_known) and this one's is none of them, by its own topic as well as by
//   one that the route's template makes of it;
// - if it has a header whose name the records of the route's format have for themselves.
//
// A session reads outbox.route once, and again after a change: where no route says anything, nothing more is done.
// What is emitted while a route changes may be past this; then the route makes a dead letter of it (TOPIC_NOT_KNOWN,
// HEADER_NAME_TAKEN). Plain code.
#pragma once

#include "emit/new_event.h"

namespace outbox::emit {

// Raises 22023.
void CheckWithRoutes(const NewEvent* event);

}  // namespace outbox::emit
