// What programs read in the server's log [P]: every line that a background process of outbox writes, and every other
// LOG line of outbox, has a CONTEXT of one shape,
//
//   outbox: process=relay database="app" event=destination_trouble destination="redis" error_class=destination
//   error_code="..."
//
// whose keys and events docs/monitoring.md lists. Names of routes, destinations, topics and tables, codes and numbers;
// never a key, an id or a part of a payload.
//
// Plain.
#pragma once

#include <initializer_list>

#include "pg/prelude.h"

namespace outbox::pg {

struct LogField {
  const char* key;
  const char* value;  // nullptr or empty: left out
};

// Once, in a background process: from now on each of its lines says which process wrote it. `database`: nullptr: none.
void NameLogLines(const char* process, const char* database);

// For use among the arguments of ereport(): what happened.
int LogEvent(const char* event, std::initializer_list<LogField> fields = {});

// A number as text, palloc'd.
const char* LogNumber(int64 number);

// How the lines begin that NameLogLines() has each line end with.
inline constexpr const char* kLogHead = "outbox: process=";
// In place of the text of an error that MayTellOfRow().
inline constexpr const char* kRowTold =
    "an error whose text may hold a part of an event, and is left out here; its SQLSTATE is told";

// Whether the text of an error may hold a part of a row: then it does not belong into the log of a background process,
// which nobody asked for that row.
bool MayTellOfRow(int sqlstate);

}  // namespace outbox::pg
