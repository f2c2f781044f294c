// Telling the workers, at commit, that routes or parked events were changed [P].
#pragma once

namespace outbox::admin {

// Once per backend, from _PG_init.
void RegisterChangeCallback();
// This transaction changes routes: when it commits, the database's config_generation goes up and its workers wake.
// Such a transaction cannot be prepared, because no callback of ours runs at COMMIT PREPARED. Plain; raises nothing.
void NoteConfigChange();
// Likewise for parked events that somebody changed by hand, and parked_generation. Goes up on abort as well: rows that
// this transaction had locked are free again, and a lane may have passed them over meanwhile.
void NoteParkedChange();

}  // namespace outbox::admin
