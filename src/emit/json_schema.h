// JSON Schema [P]: validates a jsonb document. Plain code, on the server's own jsonb, numeric and regular expressions:
// the libraries that Debian has either know draft 4 only or match patterns by std::regex, which ends the process where
// a string is long, and every one would need the payload a second time in a form of its own.
//
// What is asserted is what draft 2020-12 asserts, and drafts 6, 7 and 2019-09 where they write it otherwise: items as
// an array with additionalItems, definitions, dependencies. `format` and `content...` are annotations. `$ref` is a
// pointer within the schema. What is not done (unevaluated..., $dynamicRef, a $ref to elsewhere) is refused when a
// schema is registered (well_formed_schema.h), so that nothing passes for a check that is none. Patterns are POSIX
// advanced regular expressions of PostgreSQL, which has those of JSON but \p{...} and named groups.
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "utils/jsonb.h"
}

namespace outbox::emit {

// How far the check came: where it did not come to an end, nobody can say whether the document is valid.
enum class Reach { kEnd, kTooDeep, kTooLong };

// What is wrong first: where, as a JSON pointer, what is expected, and what is there; or, but for Reach::kEnd, where
// the check was given up. nullptr: it is valid.
struct Reason {
  const char* told = nullptr;
  const char* logged = nullptr;  // the same without any part of the document
};
Reason Mismatch(Jsonb* schema, Jsonb* document, Reach* reach);

}  // namespace outbox::emit
