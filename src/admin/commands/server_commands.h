// DROP SERVER and ALTER SERVER ... RENAME [P]. Routes name their server, because an oid does not survive a dump. So:
//   DROP SERVER of a server that routes use is refused (2BP01), also with CASCADE, which people write to get rid of the
//   user mappings, and so is DROP OWNED BY its owner (loss_of_objects.h sees it), unless the extension goes as well;
//   dropping the wrapper or the extension with CASCADE is not, unless events are undelivered (loss.h). ALTER SERVER ...
//   RENAME renames it in routes and pauses as well, and pauses go with their server. ALTER ROLE ... RENAME renames it
//   in the rights to emit as well. Whoever names a server holds it until the transaction ends (lookup/server.h), so
//   that these commands wait, and then see the name.
// Whatever gets past that shows as trouble of the lane: the route names a server that is not there.
#pragma once

#include "admin/commands/utility_hook.h"

namespace outbox::admin {

// Plain.
bool DropsServer(Node* statement);
bool DropsServerOrWrapper(Node* statement);
bool RenamesServer(Node* statement);
bool RenamesRole(Node* statement);

// Leaves a row in outbox.audit, see route_audit.h.
extern const UtilityScope kAuditsServer;
extern const UtilityScope kAuditsOwned;  // and warns as ALTER SERVER ... OWNER TO does

// Throw.
void CheckDropServer(Node* statement);
// If routes use it. `owned`: it would go with all that its owner has.
void RefuseServerInUse(const char* server, bool owned);
void RenameServer(Node* statement);
// Before the command looks at what is undelivered, and with that at the pauses.
void LockPauses(Node* statement);
// Of those that are not there any more.
void DropPausesOfServers(Node* statement);
// Before a role is renamed, too: a right that another server's oid came with is found by the old name.
void FollowRoleNames(Node* statement);

}  // namespace outbox::admin
