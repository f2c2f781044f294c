// The indexes of a day table, as an emit fills them [P]. Plain code.
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "nodes/execnodes.h"
}

namespace outbox::emit {

inline constexpr int kMaxIndexes = 16;

struct Indexes {
  int count;
  Relation relation[kMaxIndexes];
  IndexInfo info[kMaxIndexes];
};

// Opens every index that is ready, not only the extension's: during REINDEX CONCURRENTLY there are two for a while, and
// a row that is missing in one of them is lost to the reader. Refuses (55000) what an emit cannot fill.
void OpenIndexes(Relation day_table, Indexes* indexes);
// `values` and `nulls` are the row's own columns of the log.
void InsertIntoIndexes(Relation day_table, Indexes* indexes, HeapTuple row, const Datum* values, const bool* nulls);
void CloseIndexes(Indexes* indexes);

}  // namespace outbox::emit
