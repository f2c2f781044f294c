// Undelivered events are not lost without a word [P].
//
// UPDATE and DELETE on the log and its day tables are refused; TRUNCATE, DROP and DETACH of what holds undelivered
// events as well, and DROP of the extension, of its schema and of a destination, also as part of another command
// (DROP OWNED BY, CASCADE). `SET outbox.allow_loss = on` lets all through, and then a WARNING says what was lost.
// Undelivered: pending, or parked and not dead, on some route. Dead letters are only reported.
//
// The triggers work everywhere. DROP and DETACH are seen where the library is loaded: in every session where it is
// preloaded. The keeper's own drops do their own checks. DROP DATABASE is not checked: that is impossible from another
// database.
#pragma once

#include <string>

#include "pg/prelude.h"

namespace outbox::admin {

// Once per backend, from _PG_init.
void InstallDropHook();

// While an object exists, the log's rows may be moved elsewhere: adopt() does so with rows that came past its guard.
class MovingRows {
 public:
  MovingRows();
  ~MovingRows();
  MovingRows(const MovingRows&) = delete;
  MovingRows& operator=(const MovingRows&) = delete;
};

// Before every utility command; throws.
void LookForLoss(Node* statement);

// What the routes to that server have not delivered, as text for messages; empty: nothing. Throws.
std::string UndeliveredTo(const char* server);

}  // namespace outbox::admin
