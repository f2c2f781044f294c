// outbox.seek(): all lanes of a route begin again at a moment [P].
//
// As if each lane were half way through a window: everything visible now, done up to just before that moment (so does a
// route that is created with a timestamp). The workers see that their lanes were moved, release them in good order
// (what is in flight of parked events is not sent twice for this), and whoever claims them begins there. Parked events
// stay as they are, and what people have given up stays given up: up to now, lanes pass over both
// (log/window/settled.h). Where that window cannot be read, a move to infinity is one to now, which begins with none.
#include "admin/common/batches.h"
#include "admin/common/operation.h"
#include "admin/common/procedure_arguments.h"
#include "admin/common/write_lock.h"
#include "admin/lookup/backlog.h"
#include "admin/lookup/edited_events.h"
#include "admin/lookup/event_walk.h"
#include "admin/lookup/parked_counts.h"
#include "admin/lookup/pauses.h"
#include "admin/lookup/route_start.h"
#include "admin/lookup/unreadable_log.h"
#include "admin/operate/let_lanes_save.h"
#include "base/count_text.h"
#include "log/progress/lane_tables.h"
#include "pg/clock.h"
#include "pg/entry.h"
#include "pg/transaction_end.h"

namespace {

using namespace outbox::admin;
using outbox::pg::Guard;
using outbox::pg::UserError;

struct Counts {
  int64 again = 0;
  int64 missed = 0;  // sent for the first time: an earlier move had passed over them
  int64 older = 0;   // likewise, as the route began after them
  int64 passed_over = 0;
  int64 given_up = 0;   // skipped or discarded: left alone
  int64 edited = 0;     // of those that are sent
  std::string unknown;  // why they are not known: the lane that stands there can be moved all the same

  Cell Known(int64 count) const { return unknown.empty() ? Cell(std::to_string(count)) : Cell(); }
};

Counts CountEvents(const std::string& route, int64 at, int64 newest) {
  RouteEvents events(route);
  if (events.lanes()[0].restored) {
    throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    "route \"" + route + "\" came by a dump, and is not adopted",
                    "Its positions mean nothing here before.", "SELECT outbox.adopt() comes first."};
  }
  const EditedEvents edited(route);
  Counts counts;
  WalkFilter filter;
  filter.since = at;
  filter.until = newest + 1;
  if (filter.since < filter.until) {
    WalkLog(filter, [&](const WalkedEvent& event) {
      // The move takes the route's beginning back to there.
      const RouteEvents::Fate fate = events.FateOf(event, RouteEvents::Older::kCounts);
      counts.again += fate == RouteEvents::Fate::kDelivered;
      counts.missed += fate == RouteEvents::Fate::kPassedOver;
      counts.older += fate == RouteEvents::Fate::kOlder;
      counts.given_up += fate == RouteEvents::Fate::kGivenUp;
      const bool sent = fate == RouteEvents::Fate::kDelivered || fate == RouteEvents::Fate::kPassedOver ||
                        fate == RouteEvents::Fate::kOlder;
      counts.edited += sent && edited.Has(event.id);
    });
  }
  int64 oldest = 0;
  for (const LaneBacklog& backlog : CountBacklog(events.lanes(), Access::kLatest, {.parked = true})) {
    oldest = backlog.oldest != 0 && (oldest == 0 || backlog.oldest < oldest) ? backlog.oldest : oldest;
  }
  if (oldest != 0 && oldest < at) {
    filter.since = oldest;
    filter.until = at;
    WalkLog(filter, [&](const WalkedEvent& event) {
      counts.passed_over += events.FateOf(event) == RouteEvents::Fate::kPending;
    });
  }
  return counts;
}

void TellMove(const std::string& route, const Counts& counts, bool dry_run) {
  if (!counts.unknown.empty()) {
    Notice(std::string(dry_run ? "dry run: " : "") + "how many events route \"" + route + "\" " +
               (dry_run ? "would send or pass over" : "sends and passes over") + " is not known",
           "Because " + counts.unknown + ".", dry_run ? "dry_run => false moves it all the same." : "");
    return;
  }
  Notice(std::string(dry_run ? "dry run: " : "") + "route \"" + route + "\" " + (dry_run ? "would send " : "sends ") +
             outbox::CountText(counts.again, "delivered event") + " again, " +
             (counts.missed > 0 ? std::to_string(counts.missed) + " passed over before for the first time, " : "") +
             (counts.older > 0 ? std::to_string(counts.older) + " older than the route for the first time, " : "") +
             "and " + (dry_run ? "pass" : "passes") + " over " + std::to_string(counts.passed_over) +
             " that it has not delivered",
         counts.given_up == 0 ? ""
                              : outbox::CountText(counts.given_up, "that was skipped or discarded stays so: ",
                                                  "that were skipped or discarded stay so: ") +
                                    "CALL outbox.replay(..., include_given_up => true) sends them.",
         dry_run ? "dry_run => false moves it." : "");
  TellEdited(counts.edited, "Emit the corrections as events of their own, or have outbox.replay() leave these out.");
}

// As with consumer offsets: a dead-letter queue is not moved with them.
ParkedCount CountParkedOf(const std::string& route_id) {
  ParkedCount all;
  for (const auto& [lane, parked] : CountParked(Access::kWrite)) {
    if (std::to_string(lane.first) == route_id) {
      all.Add(parked);
    }
  }
  return all;
}

void TellParked(const ParkedCount& all) {
  if (all.all() == 0) {
    return;
  }
  Notice(std::string(all.capped ? "at least " : "") + std::to_string(all.all()) + " parked " +
             (all.all() == 1 ? "event stays" : "events stay") + " as " + (all.all() == 1 ? "it is" : "they are"),
         std::to_string(all.retrying) + " being retried, " + std::to_string(all.blocked) + " waiting behind another, " +
             std::to_string(all.scheduled) + " scheduled, " + std::to_string(all.dead) + " dead.",
         "They are not moved: outbox.skip(), outbox.discard_dead_letters() and outbox.cancel_replay() give them up.");
}

constexpr const char* kNoteStart =
    "SELECT outbox_internal.note_lane_start($1::bigint, timestamptz 'epoch' + $2::bigint * interval '1 microsecond', "
    "'seek', "
    "$3::pg_snapshot, $4::pg_snapshot, timestamptz 'epoch' + $5::bigint * interval '1 microsecond')";

// The route's id; locks its row, unless it is only asked whether it can be moved.
Cell MovableRoute(const std::string& route, bool lock) {
  const std::string sql =
      std::string("SELECT id, lanes_wanted FROM outbox.route WHERE name = $1") + (lock ? " FOR NO KEY UPDATE" : "");
  std::vector<Row> rows = RunSql(Access::kWrite, sql.c_str(), {Cell(route)});
  if (rows.empty()) {
    throw NoSuchRoute(route);
  }
  if (rows[0][1]) {
    const std::string resume = ResumeCalls(Access::kWrite, route);
    throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    "the number of lanes of route \"" + route + "\" is being changed",
                    "Its lanes come to rest at a common point first." +
                        (resume.empty() ? "" : " The route is paused, so that waits for " + resume + "."),
                    "Wait until lanes_wanted is NULL in outbox.route, or take the change back with alter_route()."};
  }
  return rows[0][0];
}

// `unread`: behind all of the log as it is, without a window that would be read up to `at`.
void Move(const std::string& route, int64 at, bool unread) {
  LockToWrite({"route", "lane", "side_lane", "lane_start"});
  const Cell id = MovableRoute(route, true);
  int64 clock = 0;
  const int64 route_id = std::stoll(id.value());
  Guard([&] {
    // Waits for workers that are saving progress, and keeps others from doing so until the lanes stand elsewhere:
    // progress saved after the seek would count.
    outbox::log::LockPositions(route_id, ShareLock, true);
    clock = outbox::pg::TakeReadings(1);
  });
  RouteStart start = ParseStart(Cell(unread ? "now" : UnixMicrosText(at)));
  RunSql(
      Access::kWrite,
      // What lanes did before the oldest retained event concerns no event any more.
      "DELETE FROM outbox_internal.lane_start WHERE route_id = $1::bigint AND at < timestamptz 'epoch' + $2::bigint * "
      "interval '1 microsecond'",
      {id, Cell(std::to_string(OldestRetained().value_or(clock)))});
  RunSql(Access::kWrite, kNoteStart,
         {id, Cell(std::to_string(clock)), start.window_from, start.window_to, start.done_to});
  RunSql(Access::kWrite,
         "UPDATE outbox_internal.lane SET window_from = $2::pg_snapshot, window_to = "
         "$3::pg_snapshot, done_to = timestamptz 'epoch' + $4::bigint * interval '1 microsecond', "
         "since = timestamptz 'epoch' + $5::bigint * interval '1 microsecond', repeats_to = $3::pg_snapshot WHERE "
         "route_id = "
         "$1::bigint",
         {id, start.window_from, start.window_to, start.done_to, Cell(std::to_string(clock))});
  RunSql(Access::kWrite, "DELETE FROM outbox_internal.side_lane WHERE route_id = $1::bigint", {id});
  // A route takes events older than itself only if it is moved there.
  RunSql(Access::kWrite,
         "UPDATE outbox.route SET start_time = least(start_time, timestamptz 'epoch' + $2::bigint * interval '1 "
         "microsecond') WHERE id = $1::bigint",
         {id, Cell(std::to_string(at))});
}

}  // namespace

OUTBOX_FUNCTION(outbox_seek) {
  Cell route = TextArgument(fcinfo, 0);
  std::optional<int64> at = TimeArgument(fcinfo, 1);
  Cell reason = CheckReason(TextArgument(fcinfo, 2), false);
  bool dry_run = BooleanArgument(fcinfo, 3, "dry_run");
  if (!route || !at) {
    throw UserError{ERRCODE_NULL_VALUE_NOT_ALLOWED, route ? "at must not be null" : "route must not be null", "",
                    "For example CALL outbox.seek('everything', '2026-01-31 12:00+00')."};
  }
  if (!dry_run) {
    RequireWritable("outbox.seek()");
  }
  Batches batches(fcinfo, "outbox.seek()", !dry_run);
  int64 newest = TimeOfClocks() + kPgEpochMicros;
  std::string unknown = WhyUnread([&] { newest = NewestTime() + kPgEpochMicros; });
  const bool infinity = TIMESTAMP_IS_NOEND(PG_GETARG_TIMESTAMPTZ(1));
  if (infinity) {
    at = newest + 1;  // the newest event, too
  } else if (*at > newest) {
    throw UserError{ERRCODE_INVALID_PARAMETER_VALUE, "cannot move a route into the future",
                    "No event is newer than " + UnixMicrosText(newest) + ".",
                    "Pass 'infinity' to pass over everything that waits."};
  }
  const ParkedCount parked = CountParkedOf(MovableRoute(*route, false).value());
  Counts counts;
  if (unknown.empty()) {
    unknown = WhyUnread([&] {
      (void)LetLanesSave(route, nullptr);
      counts = CountEvents(*route, *at, newest);
    });
  }
  counts.unknown = std::move(unknown);
  std::optional<int64> oldest = OldestRetained();
  if (!oldest || *at < *oldest) {
    Notice(oldest ? "the log begins at " + UnixMicrosText(*oldest) : "the log is empty",
           "Older events are no longer kept.", "outbox.retention says how long days are kept.");
  }
  if (!dry_run) {
    batches.Commit();  // releases what was locked for counting
    WriteAudit("seek", route, Cell(),
               JsonObject()
                   .Add("at", Cell(UnixMicrosText(*at)))
                   .AddRaw("again", counts.Known(counts.again).value_or("null"))
                   .AddRaw("first_time", counts.Known(counts.missed + counts.older).value_or("null"))
                   .AddRaw("passed_over", counts.Known(counts.passed_over).value_or("null"))
                   .AddRaw("given_up", counts.Known(counts.given_up).value_or("null"))
                   .AddRaw("edited", counts.Known(counts.edited).value_or("null")),
               reason);
    Move(*route, *at, infinity && !counts.unknown.empty());
    outbox::pg::NoteConfigChange();
    outbox::pg::NoteParkedChange();
    batches.Commit();
  }
  TellMove(*route, counts, dry_run);
  TellParked(parked);
  return batches.Result({counts.Known(counts.again), counts.Known(counts.passed_over)});
}
