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

// Raise 22023. The headers are asked about when they are complete: columns and registered schemas add to those of the
// call. `only`: a route's name, where no other is asked.
void CheckTopicWithRoutes(const NewEvent* event, const char* only);
void CheckHeadersWithRoutes(const NewEvent* event, const char* only);
// For a header that is only added where it may: whether a route that takes the event has one of that name. False while
// tables cannot be looked at (in a parallel operation, where nothing is emitted).
bool HeaderIsTaken(const NewEvent* event, const char* name);

}  // namespace outbox::emit
