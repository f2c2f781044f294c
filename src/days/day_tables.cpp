#include "days/day_tables.h"

#include <algorithm>
#include <exception>

#include "pg/transaction.h"

extern "C" {
#include "catalog/pg_inherits.h"
}

namespace outbox::days {

void ReadDayTables(DayTableKind kind, std::vector<DayTable>* tables) {
  Oid parent = DayTableParent(kind);
  if (!OidIsValid(parent)) {
    return;
  }
  List* children = find_inheritance_children(parent, NoLock);
  ListCell* cell = nullptr;
  foreach (cell, children) {
    const char* name = get_rel_name(lfirst_oid(cell));
    if (name == nullptr) {
      continue;  // dropped meanwhile
    }
    DayTable table;
    table.oid = lfirst_oid(cell);
    if (!DayOfTableName(kind, name, &table.day)) {
      table.day = kUnknownDay;
    }
    tables->push_back(table);
  }
  Oid spare = kind == DayTableKind::kLog ? SpareTable() : InvalidOid;
  if (OidIsValid(spare)) {
    tables->push_back({spare, kUnknownDay});
  }
  std::sort(tables->begin(), tables->end(),
            [](const DayTable& a, const DayTable& b) { return a.day != b.day ? a.day < b.day : a.oid < b.oid; });
}

int EnsureDaysAhead(int64_t now_micros, int days) {
  int made = 0;
  std::exception_ptr first;
  int32 today = DayOfMicros(now_micros);
  for (DayTableKind kind : {DayTableKind::kLog, DayTableKind::kProgress, DayTableKind::kTick, DayTableKind::kOutcome,
                            DayTableKind::kEmitKey}) {
    for (int32 day = today; day <= today + days; day++) {
      try {
        pg::InTransaction(CurrentMemoryContext, [&] {
          if (OidIsValid(DayTableParent(kind)) && CreateDayTable(kind, day)) {
            made++;
          }
        });
      } catch (const pg::PgError&) {
        first = first ? first : std::current_exception();
      }
    }
  }
  if (first) {
    std::rethrow_exception(first);
  }
  return made;
}

}  // namespace outbox::days
