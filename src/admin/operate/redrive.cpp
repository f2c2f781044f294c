// outbox.redrive() and outbox.discard_dead_letters(): dead letters by filter, in batches [P].
#include <algorithm>

#include "admin/common/batches.h"
#include "admin/common/operation.h"
#include "admin/common/procedure_arguments.h"
#include "admin/common/progress.h"
#include "admin/common/write_lock.h"
#include "admin/operate/parked_rows.h"
#include "base/count_text.h"
#include "pg/entry.h"
#include "pg/transaction_end.h"

namespace {

using namespace outbox::admin;
using outbox::CountText;
using outbox::pg::UserError;

constexpr const char* kDeadLetter = "dead letter";
constexpr size_t kFilters = 8;
constexpr int64 kLargestBatch = 100000;
constexpr int64 kPage = 20000;
constexpr const char* kFilterNames[kFilters] = {"route",      "topic", "aggregate_type", "aggregate_id",
                                                "event_type", "since", "until",          "error"};

// $1 to $8: the filters; $9: the start, since what fails again after it is left alone.
constexpr const char* kDead =
    "outbox_internal.dead_letters($1, $2, $3, $4, $5, $6::timestamptz, $7::timestamptz, $8, $9::timestamptz) ";

struct Selection {
  std::vector<Cell> params;  // of kDead
  Cell route;
  std::string text;  // as given, JSON
};

Selection ReadFilters(FunctionCallInfo fcinfo, TimestampTz started) {
  Selection selection;
  JsonObject given;
  for (size_t i = 0; i < kFilters; i++) {
    const bool is_time = i == 5 || i == 6;
    const int number = static_cast<int>(i);
    const Cell value = is_time ? TimeTextArgument(fcinfo, number) : TextArgument(fcinfo, number);
    if (value && value->empty()) {
      throw UserError{ERRCODE_INVALID_PARAMETER_VALUE, std::string(kFilterNames[i]) + " must not be empty", "",
                      "Leave it out to take everything."};
    }
    given.Add(kFilterNames[i], value);
    if (is_time) {
      const std::optional<int64> at = TimeArgument(fcinfo, number);
      selection.params.push_back(at ? Cell(UnixMicrosText(*at)) : Cell());
    } else {
      selection.params.push_back(i == 0 || i == 3 ? value : LikePattern(value));
    }
  }
  RequireOrder(fcinfo, 5, 6);
  selection.params.push_back(TimestampCell(started));
  selection.route = selection.params[0];
  selection.text = given.Text();
  if (selection.route) {
    RouteId(*selection.route);
  }
  return selection;
}

int64 BatchArgument(FunctionCallInfo fcinfo) {
  constexpr int kNumber = 9;
  const int64 batch = PG_ARGISNULL(kNumber) ? 0 : PG_GETARG_INT64(kNumber);
  if (batch < 1 || batch > kLargestBatch) {
    throw UserError{ERRCODE_INVALID_PARAMETER_VALUE, "batch must be between 1 and 100000",
                    PG_ARGISNULL(kNumber) ? "It is null." : "It is " + std::to_string(batch) + ".",
                    "It is the number of events between two commits."};
  }
  return batch;
}

// What would be done, by route, topic and reason.
int64 Report(const Selection& selection, const char* verb) {
  int64 total = 0;
  const std::string sql = std::string("SELECT route, topic, error_class, error_code, count(*) FROM ") + kDead +
                          "GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1, 2, 3, 4";
  for (const Row& row : RunSql(Access::kWrite, sql.c_str(), selection.params)) {
    int64 count = Number(row[4]);
    total += count;
    Notice(std::string("would ") + verb + " " + CountText(count, kDeadLetter) + " of route \"" + row[0].value() +
           "\", topic \"" + row[1].value() + "\": " + row[2].value_or("?") + ", " + row[3].value_or("?"));
  }
  return total;
}

std::vector<ParkedKey> NextPage(const Selection& selection, const ParkedKey& after) {
  LockToWrite({"parked"});
  std::vector<Cell> params = selection.params;
  params.insert(params.end(), {Cell(std::to_string(after.route_id)), Cell(std::to_string(after.created_at)),
                               Cell(after.id), Cell(std::to_string(after.replay)), Cell(std::to_string(kPage))});
  const std::string sql =
      std::string("SELECT route_id, (extract(epoch FROM created_at) * 1000000)::bigint, id, replay FROM ") + kDead +
      "WHERE (created_at, route_id, id, replay) > (timestamptz 'epoch' + $11::bigint * interval '1 microsecond', "
      "$10::bigint, $12::uuid, $13::bigint) ORDER BY created_at, route_id, id, replay LIMIT $14::bigint";
  std::vector<ParkedKey> keys;
  for (const Row& row : RunSql(Access::kWrite, sql.c_str(), params)) {
    keys.push_back(ReadParkedKey(row));
  }
  return keys;
}

struct Work {
  const char* action;  // for the audit
  const char* would;   // "retry"
  const char* has;     // "will be tried again"
  const char* does;    // "has them tried again"
  bool dry_run = false;
  int64 batch = 0;
  double per_second = 0;
  bool resolves = false;  // writes lanes
  Cell reason = std::nullopt;
};

// A batch is of one route: it waits for that with nothing in hand. Whoever changes several routes in one transaction
// takes them in an order of his own, and would come to a deadlock with a batch that holds one of them and waits for
// another.
void OrderByRoute(std::vector<ParkedKey>* page) {
  std::stable_sort(page->begin(), page->end(),
                   [](const ParkedKey& a, const ParkedKey& b) { return a.route_id < b.route_id; });
}

size_t BatchEnd(const std::vector<ParkedKey>& page, size_t begin, size_t most) {
  size_t end = begin + 1;
  while (end < page.size() && end - begin < most && page[end].route_id == page[begin].route_id) {
    end++;
  }
  return end;
}

struct Done {
  int64 events = 0;
  int64 waiting = 0;  // of those: for their keys
};

// Calls `apply` with batches of locked dead letters, and commits each. It returns how many of them wait.
template <typename Apply>
Done ForEachBatch(Batches* batches, const Selection& selection, const Work& work, Apply&& apply) {
  LockToWrite({"parked"});
  int64 matched =
      Number(RunSql(Access::kWrite, (std::string("SELECT count(*) FROM ") + kDead).c_str(), selection.params)[0][0]);
  WriteAudit(work.action, selection.route, Cell(),
             JsonObject().AddRaw("filter", selection.text).Add("matched", matched).Add("step", Cell("begin")),
             work.reason);
  Progress progress(work.action, selection.route.value_or(""), "dead letters", work.has);
  progress.Begin(matched, 0);
  Done done;
  int64 seen = 0;
  ParkedKey last = {0, -200000000000000, "00000000-0000-0000-0000-000000000000", -1};
  for (std::vector<ParkedKey> page = NextPage(selection, last); !page.empty(); page = NextPage(selection, last)) {
    last = page.back();
    OrderByRoute(&page);
    for (size_t at = 0, end = 0; at < page.size(); at = end) {
      end = BatchEnd(page, at, static_cast<size_t>(work.batch));
      std::vector<ParkedKey> batch(page.begin() + static_cast<long>(at), page.begin() + static_cast<long>(end));
      const bool changing = work.resolves && HoldRoute(batch.front().route_id);
      std::vector<ParkedRow> rows = LockDead(batch);
      if (!rows.empty()) {
        outbox::pg::NoteParkedChange();
        done.waiting += apply(&rows);
      }
      batches->Commit();
      done.events += static_cast<int64>(rows.size());
      seen += static_cast<int64>(end - at);
      progress.At(seen, std::max(seen, matched));
      if (changing) {
        batches->GiveWay();
      }
      if (work.per_second > 0) {
        batches->Throttle(done.events, work.per_second);
      }
    }
  }
  WriteAudit(work.action, selection.route, Cell(),
             JsonObject().AddRaw("filter", selection.text).Add("done", done.events).Add("step", Cell("end")),
             work.reason);
  if (seen > done.events) {
    Notice(CountText(seen - done.events, kDeadLetter) +
           " had changed or were locked by another session, and stay as they are");
  }
  return done;
}

template <typename Apply>
Datum Run(FunctionCallInfo fcinfo, const char* procedure, Work work, Apply&& apply) {
  if (!work.dry_run) {
    RequireWritable(procedure);
  }
  Batches batches(fcinfo, procedure, !work.dry_run);
  Selection selection = ReadFilters(fcinfo, batches.started());
  if (work.per_second > 0) {
    work.batch = std::max<int64>(1, std::min(work.batch, static_cast<int64>(work.per_second)));
  }
  const Done done =
      work.dry_run ? Done{.events = Report(selection, work.would)} : ForEachBatch(&batches, selection, work, apply);
  const int64 events = done.events;
  const std::string star = StarInKeyHint(selection.params[3]);
  Notice(work.dry_run ? "dry run: " + CountText(events, "dead letter matches", "dead letters match")
                      : CountText(events, kDeadLetter) + " " + work.has,
         done.waiting == 0 ? ""
                           : "Of these wait: " + std::to_string(done.waiting) +
                                 ". Their keys are paused, or have earlier events that have not gone yet.",
         work.dry_run && events > 0 ? std::string("dry_run => false ") + work.does + "."
         : events == 0
             ? star + (star.empty() ? "" : " ") +
                   "SELECT * FROM outbox.dead_letter_summary shows what there is; error => is compared with class, "
                   "code and message, in the same case, and as a whole unless it has a *."
             : "");
  return batches.Result({Cell(std::to_string(events))});
}

}  // namespace

OUTBOX_FUNCTION(outbox_redrive) {
  Work work{"redrive", "retry", "will be tried again", "has them tried again"};
  work.dry_run = BooleanArgument(fcinfo, 8, "dry_run");
  work.batch = BatchArgument(fcinfo);
  work.per_second = RateArgument(fcinfo, 10);
  work.reason = CheckReason(TextArgument(fcinfo, 11), false);
  work.resolves = true;
  PassedKeys passed;
  return Run(fcinfo, "outbox.redrive()", work, [&](std::vector<ParkedRow>* rows) {
    std::vector<ParkedRow> left;
    Resolver resolver;  // another one for each batch: meanwhile the routes may have changed
    for (ParkedRow& row : *rows) {
      const ParkedRow before = row;
      resolver.Resolve(&row);
      if (row.order_key != before.order_key) {
        left.push_back(before);
      }
    }
    const int64 waiting = MakeDue(*rows, &passed);
    PromoteKeysOf(left);  // in the key that it stays in a row goes before what waited for it
    return waiting;
  });
}

OUTBOX_FUNCTION(outbox_discard_dead_letters) {
  Work work{"discard", "discard", "discarded", "gives them up"};
  work.dry_run = BooleanArgument(fcinfo, 8, "dry_run");
  work.batch = BatchArgument(fcinfo);
  work.reason = CheckReason(TextArgument(fcinfo, 10), !work.dry_run);
  return Run(fcinfo, "outbox.discard_dead_letters()", work, [&](std::vector<ParkedRow>* rows) {
    Remove(*rows, "discarded");
    PromoteKeysOf(*rows);
    return int64{0};
  });
}
