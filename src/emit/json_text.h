// jsonb as the text of a payload [P], byte for byte as its output function writes it. Plain code.
//
// The output function goes through an iterator that copies each string and an escape that looks at each character by
// itself: four times the work of what is here, and most of an emit.
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "lib/stringinfo.h"
#include "utils/jsonb.h"
}

namespace outbox::emit {

// Behind a varlena header. Of a text that is too large for a payload about twice as much is written as is allowed, or
// as much as there was room for, and refused (54000).
void AppendJson(StringInfo out, const Jsonb* document);
// What an iterator that skips what is nested hands out: a scalar, or an object or array as it is stored.
void AppendJson(StringInfo out, const JsonbValue* value);

}  // namespace outbox::emit
