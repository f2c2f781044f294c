// The text of a value, where it must be the same in every session [P]: two texts of one key would be two keys, and no
// order between their events. Plain code.
#pragma once

#include "pg/prelude.h"

namespace outbox::emit {

// Pins what the text of a value of this type, and of what it is made of, follows: zone and style of times, bytes,
// digits, currency, for names of objects the search path. Until UnpinText(), or the end of the transaction or savepoint
// after an error. 0: it follows nothing.
int PinText(Oid type);
inline void UnpinText(int level) {
  if (level != 0) {
    AtEOXact_GUC(false, level);
  }
}

// As PostgreSQL's own cast to text has it, so that emit(..., id::text) has the same key: of some types it is not what
// their output function says. A cast that somebody made is not used: it is a function, and may say otherwise tomorrow.
// Of a type that is no domain, and as it is pinned.
text* CastToText(Oid type, Datum value);

// Whether a column holds amounts of money, in whatever it is made of: their text follows lc_monetary.
bool HoldsMoney(TupleDesc desc);

}  // namespace outbox::emit
