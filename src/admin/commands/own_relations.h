// Which relations, and other objects, are those of outbox, and whether other hands are changing them [P]: what the
// files that look at commands ask.
#pragma once

#include <string>

#include "pg/prelude.h"

namespace outbox::admin {

// --- plain ---

// A member of the extension, of whatever kind. Where there is no extension nothing is.
bool IsMember(Oid catalog, Oid object);
// In a schema of outbox, while the extension is there and not just being made.
bool InSchemaInUse(Oid relation);
// A table of the extension, the foreign one of the view outbox.event, too, or a partition of one. (A day table that was
// detached is a user's own.)
bool IsOwnTable(Oid relation);
// A view of the extension.
bool IsOwnView(Oid relation);
// The current role may do with it what its owner may.
bool OwnsRelation(Oid relation);

// --- these throw ---

// A relation named in a command; nothing where there is none.
Oid FindRelation(const RangeVar* relation);
// The table of outbox that a role with the right to it is altering by hand. A role without it is refused by the command
// itself.
Oid FindAltered(const RangeVar* relation);
// "cannot WORDS TABLE", because emitters and workers count on it as it is; or it is let through, and audited.
void RefuseShape(Oid table, const std::string& words,
                 const std::string& instead = "Keep what is yours in a table of your own.");

}  // namespace outbox::admin
