// What a lane and its side lanes have acknowledged to a Redis server, by outbox_internal.progress, and what of that is
// lost, by outbox_internal.server_run [P]. Plain code: may raise PostgreSQL errors.
#pragma once

#include "log/loss/finding.h"

namespace outbox::log {

// Returns false if the lane was already checked under that run. Sets looked, told, and seen.
bool FindRun(const Asked& asked, const Stretch& own, Finding* finding);

// Whether any of so many lanes has noted something in the stretch that was acknowledged at this address.
bool AnyNoted(const Asked& asked, const Stretch& stretch);

// Appends to finding->lost the lanes of the stretch of which the newest rows, or those of its side lanes, under each
// run, name something that was acknowledged, is gone, and was not known to be gone: none if asked.looked is not below
// finding->told. Returns the number of the newest run under which every one of the lanes was looked at; 0: that run was
// never recorded; -1: one of them has acknowledged nothing. Sets finding->seen if any has.
int64_t FindLost(const Asked& asked, const Stretch& stretch, Finding* finding);

// Whether the lane itself has lost anything; FindLost counts its side lanes, too.
bool LaneLost(const Asked& asked, const Stretch& own);

// The newest position of the stretch, of the lane or a side lane of it, before anything that is lost was noted: of what
// other servers acknowledged, too, for that is not missed here. Appends it to finding->positions; finding->text: when.
bool FindKept(const Asked& asked, const Stretch& stretch, int32 side, Finding* finding, int64_t* at);

// The same for each of the lanes in finding->lost, and for their side lanes that have noted something that is lost;
// where there is none the position is `start`. Returns when the oldest that was found was saved, finding->text: the
// same; DT_NOEND: none was.
int64_t FindKeptOfLost(const Asked& asked, const Stretch& stretch, const Position& start, Finding* finding);

// Side lanes of the stretch that have noted something since `kept` that is lost; `present`: all that there are, too.
void ListSides(const Asked& asked, const Stretch& stretch, int64_t kept, bool present, std::vector<int32>* sides);

// Topics that a side lane has delivered since what is lost; "...": there were more.
void ListLostTopics(const Asked& asked, const Stretch& own, int32 side, Finding* finding);

// Another destination, or this one at another address, has had something of one of the lanes since then.
bool HadElsewhere(const Asked& asked, const Stretch& stretch, int64_t since);

}  // namespace outbox::log
