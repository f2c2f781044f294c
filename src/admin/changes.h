// Telling the workers, at commit, that routes changed [P].
#pragma once

namespace outbox::admin {

// Once per backend, from _PG_init.
void RegisterChangeCallback();
// This transaction changes routes: when it commits, the database's config_generation goes up and its workers wake.
// Such a transaction cannot be prepared, because no callback of ours runs at COMMIT PREPARED. Plain; raises nothing.
void NoteConfigChange();

}  // namespace outbox::admin
