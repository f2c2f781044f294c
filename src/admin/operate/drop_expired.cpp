// outbox.drop_expired(): what the keeper does twice a minute, now, and told [P]: days of the log that are over and
// delivered are dropped, each in a transaction of its own. The rule is log/progress/expired_days.h's; which days it is
// asked about, and what is in the way of the others, is what outbox.day shows (lookup/log_days.h).
#include "admin/common/batches.h"
#include "admin/common/operation.h"
#include "admin/common/procedure_arguments.h"
#include "admin/lookup/log_days.h"
#include "admin/lookup/processes.h"
#include "base/count_text.h"
#include "log/progress/expired_days.h"
#include "pg/clock.h"
#include "pg/entry.h"

namespace {

using namespace outbox::admin;
using outbox::pg::Guard;
using outbox::pg::UserError;

// Microseconds; -1: NULL, outbox.retention counts.
int64 KeepArgument(FunctionCallInfo fcinfo, int number) {
  if (PG_ARGISNULL(number)) {
    return -1;
  }
  const Cell text = TextArgument(fcinfo, number);
  const Row row =
      RunSql(Access::kRead,
             "SELECT greatest(least(extract(epoch FROM $1::interval), 1e9), -1)::bigint, $1::interval >= '0'::interval",
             {text})[0];
  if (row[1] != "t") {
    throw UserError{ERRCODE_INVALID_PARAMETER_VALUE, "keep must not be negative", "It is " + text.value() + ".",
                    "It takes the place of outbox.retention, such as keep => '1 day'."};
  }
  return Number(row[0]) * USECS_PER_SEC;
}

std::string Describe(const LogDay& day) {
  const std::string rows =
      day.rows < 0 ? "not all of which can be read" : "about " + outbox::CountText(day.rows, "event");
  return "outbox_internal." + day.table + " (" + SizeText(day.bytes) + ", " + rows + ")";
}

// In the transaction that is under way; its lock on outbox_internal.log goes with it.
bool Drop(const LogDay& day, const Cell& reason) {
  const bool dropped = Guard([&day] {
    bool done = false;
    const int32 number = day.number;
    PushActiveSnapshot(GetTransactionSnapshot());
    WithSpiAsOwner(outbox::admin::Plan::kIndexOrder, [&done, number] {
      outbox::days::DayTable table;
      table.day = number;
      table.oid = outbox::days::FindDayTable(outbox::days::DayTableKind::kLog, number);
      done = OidIsValid(table.oid) && outbox::log::DropFinishedLogTable(table);
    });
    PopActiveSnapshot();
    return done;
  });
  if (dropped) {
    WriteAudit("drop_expired", Cell(), Cell(),
               JsonObject()
                   .Add("log_table", Cell("outbox_internal." + day.table))
                   .AddRaw("rows", day.rows < 0 ? "null" : std::to_string(day.rows))
                   .Add("bytes", day.bytes),
               reason);
  }
  return dropped;
}

}  // namespace

OUTBOX_FUNCTION(outbox_drop_expired) {
  const bool dry_run = BooleanArgument(fcinfo, 0, "dry_run");
  const int64 keep = KeepArgument(fcinfo, 1);
  const Cell reason = CheckReason(TextArgument(fcinfo, 2), false);
  if (!dry_run) {
    RequireWritable("outbox.drop_expired()");
  }
  Batches batches(fcinfo, "outbox.drop_expired()", !dry_run);
  if (!CountIdentities().IsInUse()) {
    throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot drop days of an outbox that is not in use",
                    "It is a copy, or nothing was ever emitted: of a copy nothing is dropped before it is adopted.",
                    "See the check \"identity\" of outbox.doctor()."};
  }
  const std::vector<LogDay> days = LoadLogDays({.limit = kDayScanLimit, .rows = true, .retention = keep});
  if (!dry_run) {
    batches.Commit();
  }
  const int64 now = Guard([] { return outbox::pg::ExpiryNow(); });
  int64 dropped = 0;
  int64 bytes = 0;
  for (const LogDay& day : days) {
    const bool expired = day.Is("expired");
    if (!expired && !(day.Is("held") && day.goes_at != 0 && day.goes_at <= now)) {
      continue;
    }
    // What would be in the way of the command (a view, say) must not end the call for the days after this one.
    const bool done = expired && !dry_run && day.in_the_way.empty() && Drop(day, reason);
    if (!dry_run) {
      batches.Commit();
    }
    if (done || (expired && dry_run && day.in_the_way.empty())) {
      dropped++;
      bytes += day.bytes;
      Notice((dry_run ? "would drop " : "dropped ") + Describe(day));
    } else {
      const std::string by = HoldersText(day);
      Notice((dry_run ? "would keep " : "kept ") + Describe(day),
             by.empty() ? "Something of it is not delivered, or it is locked." : "In the way is " + by + ".");
    }
  }
  Notice(
      (dry_run ? "dry run: " : "") + (dry_run ? outbox::CountText(dropped, "day") + " would be dropped"
                                              : outbox::CountText(dropped, "day was dropped", "days were dropped")),
      "",
      dry_run && dropped > 0 ? "dry_run => false drops them: replay(), seek() and status() know of them no more." : "");
  return batches.Result({Cell(std::to_string(dropped)), Cell(std::to_string(bytes))});
}
