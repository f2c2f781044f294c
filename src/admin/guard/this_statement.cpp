#include "admin/guard/this_statement.h"

#include "admin/guard/undelivered.h"
#include "pg/guard.h"
#include "pg/settings.h"

extern "C" {
#include "utils/memutils.h"
}

namespace outbox::admin {

namespace {

using pg::Guard;

struct Notes {
  MemoryContext statement;
  MemoryContextCallback when_it_ends;
  Notes* older;
  bool empties[2];  // by Emptied
  int warned;
  int64 of[10];  // routes; kEverything
};

// Statements nest, where a trigger runs others. The newest first.
Notes* newest = nullptr;

void Forget(void* ended) {
  Notes** notes = &newest;
  while (*notes != nullptr && *notes != ended) {
    notes = &(*notes)->older;
  }
  if (*notes != nullptr) {
    *notes = (*notes)->older;
  }
}

// A BEFORE trigger is called in memory of the executor's state, of which each statement has its own. nullptr: nowhere
// in one. Calls nothing that raises.
MemoryContext StatementMemory() {
  MemoryContext memory = CurrentMemoryContext;
  while (memory != nullptr && strcmp(memory->name, "ExecutorState") != 0) {
    memory = memory->parent;
  }
  return memory;
}

// nullptr: nothing is noted.
const Notes* Find() {
  const MemoryContext statement = StatementMemory();
  const Notes* notes = newest;
  while (notes != nullptr && notes->statement != statement) {
    notes = notes->older;
  }
  return notes;
}

// Plain.
Notes* FindOrBegin() {
  const MemoryContext statement = StatementMemory();
  auto* notes = const_cast<Notes*>(Find());
  if (notes == nullptr && statement != nullptr) {
    notes = static_cast<Notes*>(MemoryContextAllocZero(statement, sizeof(Notes)));
    notes->statement = statement;
    notes->when_it_ends = {Forget, notes, nullptr};
    notes->older = newest;
    MemoryContextRegisterResetCallback(statement, &notes->when_it_ends);
    newest = notes;
  }
  return notes;
}

}  // namespace

bool WarnedOf(int64 what) {
  const Notes* notes = pg::settings.allow_loss ? Find() : nullptr;
  if (notes == nullptr) {
    return false;
  }
  for (int i = 0; i < notes->warned; i++) {
    if (notes->of[i] == what || notes->of[i] == kEverything) {
      return true;
    }
  }
  return notes->warned == lengthof(notes->of);
}

void NoteWarned(int64 what) {
  Notes* notes = Guard([] { return FindOrBegin(); });
  if (notes != nullptr && notes->warned < static_cast<int>(lengthof(notes->of))) {
    notes->of[notes->warned++] = what;
  }
}

bool Empties(Emptied what) {
  const Notes* notes = Find();
  return notes != nullptr && notes->empties[static_cast<int>(what)];
}

void NoteEmpties(Emptied what) {
  Notes* notes = Guard([] { return FindOrBegin(); });
  if (notes != nullptr) {
    notes->empties[static_cast<int>(what)] = true;
  }
}

}  // namespace outbox::admin
