// Rows that go with the row that they hang on, by a foreign key of outbox [P]: that row has been asked about, so these
// are not.
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "commands/trigger.h"
}

namespace outbox::admin {

// Of a row: whether one that it refers to is gone, in the query of a foreign key. Of a statement: whether it may be
// such a query, whose rows are asked about one by one. (Other statements run inside such a query as well: those of a
// user's own triggers, on tables of his own.) Throws.
bool GoesWithParent(const TriggerData* trigger);

}  // namespace outbox::admin
