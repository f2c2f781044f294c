// Emit once [P]: a dedupe_key emits one event within outbox.dedupe_retention, as if a unique index saw to it that spans
// all the day tables of outbox_internal.emit_key. Plain code.
#pragma once

#include "emit/new_event.h"

namespace outbox::emit {

inline constexpr size_t kMaxDedupeKey = 1000;  // bytes, in UTF-8 at most so many as well

// Checks the key of an event that has one.
void CheckDedupeKey(const NewEvent* event);

// Takes the event's key for the event itself, whose id and created_at are set; false if another event has it: those are
// that one's then. Waits for a transaction that is about to take it, and asks for new values through `stamp` after
// that. Call it with the transaction's id assigned.
bool TakeKey(NewEvent* event, void (*stamp)(NewEvent*));

}  // namespace outbox::emit
