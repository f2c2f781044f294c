// The schemas of the extension [P]: what users call and read is in kSchema; the log, positions and all else that they
// need not see in kInternalSchema. An extension of version 0.1, until it is updated, has everything in kSchema: what is
// asked for here is found in either.
//
// Reads the catalogs: within a transaction, and through the guard from C++ that has something to destroy.
#pragma once

#include "pg/prelude.h"

namespace outbox::pg {

inline constexpr const char* kSchema = "outbox";
inline constexpr const char* kInternalSchema = "outbox_internal";

// False for InvalidOid.
bool IsOurSchema(Oid schema);
bool IsOurSchema(const char* name);  // nullptr: false
// A relation of the extension by its name alone; InvalidOid: there is none.
Oid FindOurRelation(const char* name);

}  // namespace outbox::pg
