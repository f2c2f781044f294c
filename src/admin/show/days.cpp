// Behind outbox.day [P].
#include <algorithm>

#include "admin/lookup/log_days.h"
#include "pg/entry.h"

OUTBOX_FUNCTION(outbox_day) {
  using namespace outbox::admin;  // NOLINT: the body of one SQL function
  ResultSet result(fcinfo);
  result.Begin();
  for (const LogDay& day : LoadLogDays({.limit = kDayScanLimit, .rows = true})) {
    int64 pending = 0;
    bool capped = false, known = true;
    for (const LogDay::Holder& holder : day.holders) {
      pending = std::max(pending, holder.pending);
      capped = capped || holder.capped;
      known = known && holder.known;
    }
    const std::string holders = HoldersText(day);
    result.Add({day.begins == 0 ? Cell() : Cell(day.table.substr(sizeof("log_") - 1)),
                Cell("outbox_internal." + day.table), Cell(day.state),
                day.rows < 0 ? Cell() : Cell(std::to_string(day.rows)), Cell(std::to_string(day.bytes)),
                known ? Cell(std::to_string(pending)) : Cell(), Cell(capped ? "true" : "false"),
                UnixMicrosCell(day.oldest), TextCell(holders.c_str()), UnixMicrosCell(day.goes_at)});
  }
  return static_cast<Datum>(0);
}
