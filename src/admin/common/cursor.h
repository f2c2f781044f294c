// Reads a long result row by row [P], where RunSql() would hold all of it, as text.
#pragma once

#include "admin/common/query.h"

namespace outbox::admin {

// Visits the rows of a constant query with `count` parameters, `nulls` as for SPI. visit(row, columns) is plain and
// returns false to end. What it allocates lives until the next rows are fetched. Plain; call under WithSpiAsOwner().
template <typename Visit>
void ForEachRow(Access access, const char* sql, int count, Oid* types, Datum* values, const char* nulls,
                Visit&& visit) {
  constexpr int64 kFetch = 1000;
  Portal portal = SPI_cursor_open_with_args(nullptr, sql, count, types, values, nulls, access == Access::kRead,
                                            CURSOR_OPT_NO_SCROLL);
  MemoryContext visits = AllocSetContextCreate(CurrentMemoryContext, "outbox rows", ALLOCSET_DEFAULT_SIZES);
  for (bool more = true; more;) {
    SPI_cursor_fetch(portal, true, kFetch);
    more = SPI_processed > 0;
    MemoryContext before = MemoryContextSwitchTo(visits);
    for (uint64 i = 0; more && i < SPI_processed; i++) {
      more = visit(SPI_tuptable->vals[i], SPI_tuptable->tupdesc);
    }
    MemoryContextSwitchTo(before);
    MemoryContextReset(visits);
    SPI_freetuptable(SPI_tuptable);
    CHECK_FOR_INTERRUPTS();
  }
  SPI_cursor_close(portal);
  MemoryContextDelete(visits);
}

}  // namespace outbox::admin
