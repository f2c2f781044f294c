// Whether a table is what rows are read from and written to without the executor, which would look by itself [P]. Plain
// code.
#pragma once

#include "days/columns.h"
#include "pg/prelude.h"

namespace outbox::days {

struct ColumnRule {
  const char* name;
  Oid type;
};

// Of the log and of every day table of it.
extern const ColumnRule kLogRules[kLogColumns];

// What is wrong with it, a sentence; nullptr: nothing. It must begin with these columns, whatever they are called.
const char* WrongForReading(Relation table, const ColumnRule* rules, int count);
// The same, and with what a row written past the executor gets round, or does not outlive. `parent`: it must be a
// partition of that table; InvalidOid: of none.
const char* WrongForWriting(Relation table, const ColumnRule* rules, int count, Oid parent);

}  // namespace outbox::days
