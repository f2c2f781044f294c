// How the planner is to see outbox_internal.parked [P]. Plain code.
//
// Statements of outbox are planned once in a process, from when nothing may be parked to when a replay has parked
// millions: a plan for a table of one row reads all of it for each of its rows later. So for them the table is large,
// and has no statistics of what is in it just now: what they do goes by index, and along it. Statements of people are
// planned as ever.
#pragma once

#include "pg/prelude.h"

namespace outbox::pg {

// At the start of the process.
void InstallPlanningHooks();

}  // namespace outbox::pg
