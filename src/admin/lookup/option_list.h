// The options of a server or a user mapping, from its catalog to its sink [P]. Brokers take texts in UTF-8, whatever
// the database's encoding; the name of a file is the bytes that it has there, and goes as it is.
#pragma once

#include "sink/options.h"

struct List;

namespace outbox::admin {

// A list of DefElem. A text that has no counterpart in UTF-8 goes as it is: it may have been written before that was
// refused (see the validators). In a transaction; plain, except for what it fills.
void AppendOptions(const List* options, const sink::SinkKind* kind, sink::OptionList* out);

// The first option whose text has no counterpart in UTF-8; nullptr: none. In a transaction; plain.
const char* NotInUtf8(const List* options, const sink::SinkKind* kind);

}  // namespace outbox::admin
