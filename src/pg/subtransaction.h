// A part of a session's command that may fail by itself [P]: as a block of PL/pgSQL with an EXCEPTION clause. What one
// unreadable page ends is then no more than what needed that page.
#pragma once

#include "pg/try.h"

namespace outbox::pg {

struct Subtransaction {
  MemoryContext context;
  ResourceOwner owner;
};
void BeginSubtransaction(Subtransaction* from);                 // plain
void EndSubtransaction(const Subtransaction& from, bool keep);  // plain

// Runs `work` in a subtransaction: C++ code that owns things and calls PostgreSQL under guards of its own. Before an
// error leaves, what it has left open (locks, buffers, SPI, the owner's rights and settings) is taken back. What it
// allocates outlives it. Not in parallel mode.
template <typename Work>
void InSubtransaction(Work&& work) {
  Subtransaction from = {};
  Guard([&] { BeginSubtransaction(&from); });
  try {
    work();
  } catch (const PgError& error) {
    // A guard within may have left it in memory that goes.
    const PgError kept(CopyError(error, from.context));
    Guard([&] { EndSubtransaction(from, false); });
    throw kept;
  } catch (...) {
    Guard([&] { EndSubtransaction(from, false); });
    throw;
  }
  Guard([&] { EndSubtransaction(from, true); });
}

// Whether an error is of what was looked at, and another look may go well: not one that is for the command as a whole.
// Who cancels it, ends the session, or limits its time or its waits for locks, means all of it.
// So does memory that has run out; a full table of locks has room again without those that the part has taken.
bool ConcernsPart(const PgError& error);
// Whether a page or a file cannot be read (trouble_hints.h).
bool IsUnreadable(const PgError& error);

// Runs `work` as InSubtransaction() does; an error that `concerns` takes is returned, every other is thrown on.
template <typename Work>
Status TryPart(bool (*concerns)(const PgError&), Work&& work) {
  try {
    InSubtransaction(work);
  } catch (const PgError& error) {
    if (!concerns(error)) {
      throw;
    }
    return StatusOf(error);
  }
  return Status();
}

}  // namespace outbox::pg
