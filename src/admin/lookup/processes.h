// How many background processes are wanted, are running, and have room [P].
#pragma once

#include <optional>
#include <string>

#include "admin/common/query.h"
#include "admin/lookup/shared_views.h"
#include "pg/identity.h"
#include "pg/shared.h"

namespace outbox::admin {

struct Processes {
  int wanted = 0;      // of all databases, the launcher not counted
  int places = 0;      // that max_worker_processes and outbox.reserved_processes leave
  int found = -1;      // of these and those wanted, what others leave now; -1: all
  int unseen = 0;      // of this database, where there is no place for the keeper that would find its outbox
  std::string others;  // who holds the rest, if that is known
  bool fit() const { return places > 0 && wanted <= places; }
  bool enough() const { return fit() && found < 0; }
  bool none() const { return places == 0 || found == 0; }  // has a place
};

// How many this database has use for, by its lanes: a keeper and relay workers.
int WantedHere(Access access);
// `mine`: how many this database wants, or is about to want; less than 0: as its keeper has told, or, where no keeper
// can run, as its lanes say. Needs the shared memory.
Processes CountProcesses(int mine = -1);
// "max_worker_processes = 8, ..., leaves room for 4 of 100 processes that are wanted.", "... for 4 processes, and 3 are
// wanted.", "Other background processes hold ...".
std::string FewSlotsText(const Processes& processes);
std::string FewSlotsHint(const Processes& processes);

// Of this database, as pg::HasNoSlot(): none of outbox's processes serves it. Needs the shared memory. Throws.
bool HasNoSlot();
int RelaysWithoutPlace(bool routes);  // how many are wanted there, if there are routes
std::string NoSlotText();             // "All 64 places for databases are taken."
// The slot of this database. Throws UserError where there is no preload, or no place is left.
pg::DatabaseSlot* RequirePlace();
// Whether this database is a template: the launcher starts nothing for one, as its processes would hold up whoever
// copies it. Throws PgError.
bool IsTemplate();
inline constexpr const char* kTemplateText = "this database is a template, and nothing of outbox runs for it";
inline constexpr const char* kTemplateHint =
    "After ALTER DATABASE ... IS_TEMPLATE false its processes are there within twenty seconds; or use outbox in "
    "another "
    "database.";
inline constexpr const char* kNoSlotHint = "Raise outbox.max_databases and restart the server.";

// "The launcher, process 123, is there, and has done nothing since ...: ...". "": it does what it has to do, or is not
// there.
std::string LauncherStands();
// The same of a keeper or relay worker: "Relay worker with process 123 is there, ...".
std::string WorkerStands(const WorkerView& worker);

// Whose outbox this is. Throws PgError.
pg::Identities CountIdentities();

// Of a server in which no process of outbox can be, however it is set up.
struct BarredServer {
  const char* state;  // in a word, as outbox.process has it
  const char* why;    // in the middle of a sentence
  std::string text;   // until when
};
// This server as one of these; nothing: it is none.
std::optional<BarredServer> ServerBars();

// Why nothing is published at all; nothing: a relay worker of this database runs.
Cell WhyNobodyWorks();

// Raises a warning where not all processes of this database can run: it is a template, or there is not room, with the
// number to set.
void WarnOfMissingProcesses(int mine);

}  // namespace outbox::admin
