// Settings of outbox that are changed by a command [P]: ALTER SYSTEM, ALTER DATABASE ... SET, ALTER ROLE ... SET leave
// a row in the audit of the database where they are typed. A line of postgresql.conf that is edited has nobody who did
// it; the server's own log tells of it when it is read.
#pragma once

#include "admin/commands/utility_hook.h"

namespace outbox::admin {

// Plain and cheap.
bool SetsOfSystem(Node* statement);
bool SetsOfDatabase(Node* statement);
bool SetsOfRole(Node* statement);

// Before the statement: whether a role may have such a value, which PostgreSQL asks only when a session begins. Throws
// PgError.
void CheckSettingOfRole(Node* statement);
// Before the statement, whose end is the row's end, too. Throw PgError.
void AuditSettingOfSystem(Node* statement);
void AuditSettingOfDatabase(Node* statement);
void AuditSettingOfRole(Node* statement);

}  // namespace outbox::admin
