#include "admin/operate/replay_copy.h"

#include <algorithm>

#include "admin/common/operation.h"
#include "admin/common/progress.h"
#include "admin/common/write_lock.h"
#include "admin/lookup/route_start.h"
#include "admin/lookup/unreadable_log.h"
#include "admin/operate/parked_rows.h"
#include "base/count_text.h"
#include "log/progress/replays.h"
#include "parked/erasures.h"
#include "pg/subtransaction.h"
#include "pg/transaction_end.h"
#include "pg/trouble_hints.h"
#include "pg/wall.h"

namespace outbox::admin {

namespace {

using pg::Guard;
using pg::UserError;

constexpr size_t kBatch = 500;

// The version of the route's row: differs after each change.
constexpr const char* kRouteVersion = "SELECT xmin, name FROM outbox.route WHERE id = $1::bigint";

UserError IsBeingCopied(const std::string& number) {
  return UserError{ERRCODE_OBJECT_IN_USE, "replay " + number + " is being copied by another session", "",
                   "outbox.replay shows how far it is; outbox.cancel_replay(" + number + ") ends it."};
}

UserError RouteIsGone(const Replay& replay) {
  UserError error = NoSuchRoute(replay.plan.to);
  error.detail = "It was dropped while replay " + *replay.number + " was being copied, and with it what was copied.";
  error.hint = "outbox.cancel_replay(" + *replay.number + ") ends the replay.";
  return error;
}

uint64 LockNumber(const Replay& replay) {
  return static_cast<uint64>(Number(replay.number));
}

std::string TableName(Oid table) {
  std::vector<Row> rows = RunSql(Access::kWrite,
                                 "SELECT relname FROM pg_class WHERE oid = $1::oid AND relnamespace = ANY "
                                 "('{outbox,outbox_internal}'::regnamespace[]) "
                                 "AND relname ~ '^log_([0-9]{8}|spare)$'",
                                 {Cell(std::to_string(table))});
  if (rows.empty()) {
    throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "a day of the log went while it was copied",
                    "Its retention was over. What was copied until then is sent.",
                    "CALL outbox.replay(number => its number in outbox.replay, dry_run => false) goes on with the days "
                    "that are there."};
  }
  return rows[0][0].value();
}

UserError CannotRead(const std::string& tables, std::string detail) {
  return {ERRCODE_DATA_CORRUPTED,
          "the events to be sent again cannot all be read" + (tables.empty() ? tables : ": " + tables + " cannot"),
          std::move(detail),
          std::string("since and until that leave that time out have the others sent. ") + pg::kUnreadableHint};
}

// Copies events of one day table; returns how many.
int64 CopyStretch(const Replay& replay, size_t begin, size_t end, int64 due_base) {
  const ReplayPlan& plan = replay.plan;
  std::vector<Cell> places, keys, topics;
  std::vector<int64> times, lanes, dues;
  for (size_t i = begin; i < end; i++) {
    const ReplayEvent& event = plan.events[i];
    places.push_back(PlaceOf(event));
    times.push_back(event.created_at);
    lanes.push_back(event.lane);
    keys.push_back(OrderKeyCell(event.order_key));
    topics.push_back(plan.topics[event.topic]);
    double wait = replay.per_second > 0 ? static_cast<double>(i) / replay.per_second : 0;
    dues.push_back(due_base + static_cast<int64>(wait * USECS_PER_SEC));
  }
  const std::string table = "outbox_internal." + TableName(plan.events[begin].table);
  const std::string sql =
      "INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, replay, state, order_key, due_at, "
      "aggregate_type, "
      "aggregate_id, event_type, payload, content_type, headers, own_topic, topic, xid, deliver_at) "
      "SELECT r.id, u.lane, l.created_at, l.id, $2::bigint, 'scheduled', u.order_key, "
      "timestamptz 'epoch' + u.due * interval '1 microsecond', l.aggregate_type, l.aggregate_id, l.event_type, "
      "l.payload, "
      "l.content_type, coalesce(l.headers, '{}') || jsonb_build_object('outbox-replay', $2), l.topic, u.topic, l.xid, "
      "l.deliver_at "
      "FROM " +
      table +
      " l JOIN unnest($4::bigint[], $5::integer[], $6::bigint[], $7::text[], $8::bigint[]) "
      "AS u (micros, lane, order_key, topic, due) "
      "ON l.created_at = timestamptz 'epoch' + u.micros * interval '1 microsecond' "
      "JOIN outbox.route r ON r.name = $1 WHERE l.ctid = ANY ($3::tid[]) "
      "AND NOT outbox_internal.forgotten(l.payload, l.headers, l.content_type) RETURNING 1";
  try {
    return static_cast<int64>(
        RunSql(Access::kWrite, sql.c_str(),
               {Cell(plan.to), replay.number, ArrayLiteral(places), ArrayLiteral(times), ArrayLiteral(lanes),
                ArrayLiteral(keys), ArrayLiteral(topics), ArrayLiteral(dues)})
            .size());
  } catch (const pg::PgError& error) {
    if (!pg::IsUnreadable(error)) {
      throw;
    }
    // A large payload lies in a table of its own, which the plan had no need of.
    throw CannotRead(table, DetailOf({{table, pg::StatusOf(error).error()}}));
  }
}

// Returns false if the replay was cancelled. *changing: the route is to have another number of lanes.
bool CopyBatch(Replay* replay, size_t begin, size_t end, int64 due_base, bool* changing) {
  ReplayPlan& plan = replay->plan;
  LockToWrite({"replay", "parked"});
  Guard(outbox::parked::BeginCopy);
  if (RunSql(Access::kWrite, "SELECT FROM outbox.replay WHERE number = $1::bigint AND state = 'copying' FOR UPDATE",
             {replay->number})
          .empty()) {
    return false;
  }
  *changing = HoldRoute(Number(replay->to_id));
  const std::vector<Row> route = RunSql(Access::kWrite, kRouteVersion, {Cell(replay->to_id)});
  if (route.empty()) {
    throw RouteIsGone(*replay);
  }
  plan.to = route[0][1].value();
  const bool changed = route[0][0] != replay->planned_for;
  Resolver resolver;
  int64 copied = 0;
  for (size_t at = begin; at < end;) {
    size_t stretch = at;
    while (stretch < end && plan.events[stretch].table == plan.events[at].table) {
      stretch++;
    }
    if (changed) {
      ResolveAgain(TableName(plan.events[at].table), at, stretch, &resolver, &plan);
    }
    copied += CopyStretch(*replay, at, stretch, due_base);
    at = stretch;
  }
  RunSql(Access::kWrite,
         "UPDATE outbox.replay SET copied = copied + $2::bigint, "
         "copied_to = timestamptz 'epoch' + $3::bigint * interval '1 microsecond' WHERE number = $1::bigint",
         {replay->number, Cell(std::to_string(copied)), Cell(std::to_string(plan.events[end - 1].created_at))});
  replay->copied += copied;
  pg::NoteParkedChange();
  return true;
}

// When the first event of this part falls due: behind those of the previous part.
int64 DueBase(const Replay& replay) {
  std::vector<Row> rows =
      RunSql(Access::kWrite,
             "SELECT (extract(epoch FROM max(due_at)) * 1000000)::bigint FROM outbox_internal.parked "
             "WHERE replay = $1::bigint",
             {replay.number}, outbox::admin::Plan::kByKey);
  int64 base = Guard([] { return outbox::pg::BelievedWall(); });
  if (rows[0][0] && replay.per_second > 0) {
    int64 gap = static_cast<int64>(USECS_PER_SEC / replay.per_second);
    base = std::max<int64>(base, Number(rows[0][0]) + gap);
  }
  return base;
}

// Returns false if the replay was cancelled.
bool CopyPart(Batches* batches, Replay* replay, int64 total, Progress* progress) {
  const size_t all = replay->plan.events.size();
  LockToWrite({"replay", "parked"});
  const int64 due_base = DueBase(*replay);
  for (size_t at = 0; at < all; at += kBatch) {
    size_t end = std::min(all, at + kBatch);
    bool changing = false;
    if (!CopyBatch(replay, at, end, due_base, &changing)) {
      return false;
    }
    batches->Commit();
    if (changing) {
      batches->GiveWay();
    }
    progress->At(replay->copied, std::max(replay->copied, total));
  }
  return true;
}

void Begin(Replay* replay, const Cell& reason) {
  const WalkFilter& filter = replay->request.filter;
  const std::string matched = std::to_string(replay->plan.matched);
  replay->number =
      RunSql(Access::kWrite,
             "INSERT INTO outbox.replay (who, route, to_route, filter, from_time, to_time, per_second, matched, "
             "reason, at) "
             "VALUES (session_user, $1, $2, $3::jsonb, timestamptz 'epoch' + $4::bigint * interval '1 microsecond', "
             "timestamptz 'epoch' + $5::bigint * interval '1 microsecond', $6::numeric, $7::bigint, $8, "
             "timestamptz 'epoch' + $9::bigint * interval '1 microsecond') "
             "RETURNING number",
             {Cell(replay->plan.from), Cell(replay->plan.to), Cell(replay->request.given),
              Cell(std::to_string(filter.since)), Cell(std::to_string(filter.until)), replay->rate, Cell(matched),
              reason, Cell(std::to_string(replay->request.begun))})[0][0]
          .value();
  LockReplay(*replay);
}

// Which routes the names mean, and from then on what these are called.
void FollowNames(Replay* replay) {
  for (const auto& [id, name] :
       {std::pair(&replay->from_id, &replay->plan.from), std::pair(&replay->to_id, &replay->plan.to)}) {
    const std::vector<Row> route =
        id->empty() ? RunSql(Access::kWrite, "SELECT id, name FROM outbox.route WHERE name = $1", {Cell(*name)})
                    : RunSql(Access::kWrite, "SELECT id, name FROM outbox.route WHERE id = $1::bigint", {Cell(*id)});
    if (!route.empty()) {
      *id = route[0][0].value();
      *name = route[0][1].value();
    }
  }
}

}  // namespace

void MakePlan(Replay* replay) {
  FollowNames(replay);
  const std::vector<Row> route = RunSql(Access::kWrite, kRouteVersion, {Cell(replay->to_id)});
  replay->planned_for = route.empty() ? "" : route[0][0].value();
  const int64 now = TimeOfClocks() + kPgEpochMicros;
  const Status status = pg::TryPart(pg::IsUnreadable, [replay] { PlanReplay(replay->request, &replay->plan); });
  if (!status.ok()) {
    const WalkFilter& filter = replay->request.filter;
    const std::vector<UnreadableTable> tables = FindUnreadable(Access::kWrite, filter.since, filter.until);
    throw tables.empty() ? CannotRead("", status.error().message + " (" + status.error().code + ").")
                         : CannotRead(NamesOf(tables), DetailOf(tables));
  }
  replay->request.begun = replay->request.begun == 0 ? now : replay->request.begun;
}

void LockReplay(const Replay& replay) {
  const uint64 lock = LockNumber(replay);
  if (!Guard([lock] { return log::LockReplay(lock); })) {
    throw IsBeingCopied(*replay.number);
  }
}

void CopyReplay(Batches* batches, Replay* replay, const Cell& reason) {
  if (!replay->number) {
    Begin(replay, reason);
  }
  const std::string number = replay->number.value();
  const uint64 lock = LockNumber(*replay);
  WriteAudit("replay", replay->plan.from, Cell(),
             JsonObject()
                 .AddRaw("number", number)
                 .Add("to_route", Cell(replay->plan.to))
                 .AddRaw("filter", replay->request.given)
                 .Add("per_second", replay->rate)
                 .Add("events", replay->plan.matched),
             reason);
  batches->Commit();
  const int64 total = replay->copied + replay->plan.matched;
  Progress progress("replay", replay->plan.from, "events", "scheduled", static_cast<int64>(lock));
  progress.Begin(total, replay->copied);
  bool going = CopyPart(batches, replay, total, &progress);
  while (going && replay->plan.more) {
    replay->request.filter.since = replay->plan.events.back().created_at + 1;
    replay->request.only_ids = false;
    MakePlan(replay);
    going = CopyPart(batches, replay, total, &progress);
  }
  going = going && !RunSql(Access::kWrite,
                           "UPDATE outbox.replay SET state = 'scheduled', matched = copied WHERE number = $1::bigint "
                           "AND state = 'copying' RETURNING 1",
                           {replay->number})
                        .empty();
  Guard([lock] { log::UnlockReplay(lock); });
  if (going) {
    Notice("replay " + number + ": " + CountText(replay->copied, "event") + " scheduled", "",
           replay->copied > 0 ? "SELECT outbox.cancel_replay(" + number + ") ends it." : "");
  } else {
    Notice("replay " + number + " was cancelled");
  }
}

}  // namespace outbox::admin
