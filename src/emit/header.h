// Headers that emit itself adds to those of the caller [P]. Plain code.
#pragma once

#include "emit/new_event.h"

namespace outbox::emit {

// Which of two values counts where the caller gave the header, too.
enum class Wins { kCaller, kOurs };

void AddHeader(NewEvent* event, const char* name, const char* value, Wins wins);

// The caller's header of that name; nullptr: there is none.
const char* HeaderOf(const NewEvent* event, const char* name);
bool HasHeader(const NewEvent* event, const char* name);

// schema_version and dataschema, if they were given as such, become headers. What cannot be meant is refused (22023).
void AddSchemaHeaders(NewEvent* event);
void CheckDataschema(const char* uri, size_t size);
void RefuseSchemaVersion(const char* what);

}  // namespace outbox::emit
