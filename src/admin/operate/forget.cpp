// outbox.forget(): one person's data is erased, by key [P].
//
// Payload and headers of the key's events in the log are overwritten in their place (log/window/blank.h); the rows
// stay, and with them their windows and positions. What is undelivered is kept, or, on request, given up first: then it
// is never sent, and is noted as skipped. Lanes that go on have a moment to deliver and save what was committed before
// the call (let_lanes_save.h); what is committed later is left alone. Works day by day, each in a transaction of its
// own; what is erased stays erased.
#include <algorithm>
#include <exception>
#include <set>

#include "admin/common/batches.h"
#include "admin/common/operation.h"
#include "admin/common/procedure_arguments.h"
#include "admin/common/write_lock.h"
#include "admin/lookup/event_walk.h"
#include "admin/lookup/open_emitters.h"
#include "admin/lookup/route_start.h"
#include "admin/operate/let_lanes_save.h"
#include "admin/operate/parked_rows.h"
#include "base/count_text.h"
#include "base/fault_point.h"
#include "base/like_pattern.h"
#include "days/day_table_ddl.h"
#include "log/window/blank.h"
#include "parked/erasures.h"
#include "pg/clock.h"
#include "pg/entry.h"
#include "pg/subtransaction.h"
#include "pg/transaction_end.h"

extern "C" {
#include "access/table.h"
#include "access/xact.h"
}

namespace {

using namespace outbox::admin;
using outbox::pg::Guard;
using outbox::pg::UserError;

struct Counts {
  int64 forgotten = 0;         // rows of the log
  int64 kept = 0;              // undelivered, on some route
  std::vector<int64> kept_at;  // created_at of those of the log among them
  int64 given_up = 0;          // undelivered: per event and route; parked events; rows of foreign_event
  bool erased_unsent = false;  // of the day in hand: a lane may have it in memory
  int64 in_hand = 0;           // of these: on routes whose lane may have delivered some
};

struct Found {
  int64 created_at;
  outbox::Uuid id;
  Oid table;
  uint32 block;
  uint16 offset;
  bool undelivered;
  bool unsent;  // or given up
};

// An event of a walk, kept beyond it.
class KeptEvent {
 public:
  explicit KeptEvent(const WalkedEvent& event)
      : event_(event), event_type_(event.event_type), topic_(event.topic), has_topic_(!outbox::IsNull(event.topic)) {}
  // As it was walked to. The views live as long as this and the key do.
  WalkedEvent Of(const AggregateKey& key) const {
    WalkedEvent event = event_;
    event.aggregate_type = key.type;
    event.aggregate_id = key.id;
    event.event_type = event_type_;
    event.topic = has_topic_ ? std::string_view(topic_) : std::string_view();
    return event;
  }

 private:
  WalkedEvent event_;
  std::string event_type_;
  std::string topic_;
  bool has_topic_;
};

constexpr size_t kParkedAtOnce = 10000;

// Until it is known what became of it; the server may end in between.
constexpr const char* kBegun =
    "outbox.forget() was about to erase it, and has not told how it ended; it may have been sent";
constexpr const char* kKnownUnsent = "erased by outbox.forget()";
constexpr const char* kMayBeSent =
    "erased by outbox.forget(); its lane had events in hand, and may have sent it before";

// Of what a call had noted that was ended, with its session, before it could say how that ended.
constexpr const char* kErasedAfterAll =
    "erased by outbox.forget(), of which a call was ended before it could note that; it may have been sent before";

// What was noted as given up: readings of the shared clock, the rows' times.
struct GivenUp {
  int64 at = 0;  // of the first
  int64 count = 0;
};

// The rows of GivenUp: $1 its first, $2 behind its last.
#define NOTED                                                                                                        \
  "o.at >= timestamptz 'epoch' + $1::bigint * interval '1 microsecond' AND o.at < timestamptz 'epoch' + $2::bigint " \
  "* interval '1 microsecond'"

// What a route has still to send.
struct Owed {
  int64 route_id;
  int64 created_at;
  std::string id;
};

// Rows of the log that were erased: created_at, id.
using Erased = std::set<std::pair<int64, std::string>>;

class Forgetter {
 public:
  // Lanes come to rest meanwhile, as far as they do.
  Forgetter(AggregateKey key, bool undelivered)
      : key_(std::move(key)),
        undelivered_(undelivered),
        end_(NewestTime() + kPgEpochMicros + 1),
        lanes_(LetLanesSave(Cell(), &key_)) {}

  int64 end() const { return end_; }

  // The key's rows in the days of that time; with `owed`, also which routes still have to send them.
  std::vector<Found> FindRows(int64 since, int64 until, std::vector<Owed>* owed) {
    std::vector<Found> found;
    const std::vector<KeptEvent> rows = RowsOfKey(since, until);
    if (rows.empty()) {
      return found;  // most days: to look where routes are takes longer the more days there are
    }
    std::vector<std::string> names;
    for (Row& row : RunSql(Access::kWrite, "SELECT name FROM outbox.route ORDER BY name")) {
      names.push_back(std::move(row[0].value()));
    }
    // A route that was dropped a moment ago waits for nothing.
    const std::vector<RouteEvents> routes = RouteEvents::OfEach(names, Positions::kOfThisLog, RouteEvents::Must::kKnow);
    for (const KeptEvent& row : rows) {
      const WalkedEvent event = row.Of(key_);
      bool waits = false, given_up = false;
      std::vector<int64> pending;
      for (const RouteEvents& events : routes) {
        const RouteEvents::Fate fate = events.FateOf(event);
        waits = waits || fate == RouteEvents::Fate::kPending || fate == RouteEvents::Fate::kParked;
        given_up = given_up || fate == RouteEvents::Fate::kGivenUp;
        if (fate == RouteEvents::Fate::kPending) {
          pending.push_back(events.route_id());
        }
      }
      if (!lanes_.asked.Visible(event.xid) && (waits || !given_up)) {
        continue;  // committed since; RemoveParked() may have given it up
      }
      for (size_t i = 0; owed != nullptr && i < pending.size(); i++) {
        owed->push_back({pending[i], event.created_at, outbox::UuidText(event.id)});
      }
      found.push_back({event.created_at, event.id, event.table, event.block, event.offset, waits, waits || given_up});
    }
    return found;
  }

  // These are never sent: status() says so, and replay() leaves them alone. Whether they were sent before is left open.
  GivenUp GiveUp(const std::vector<Owed>& owed) {
    GivenUp given_up;
    if (owed.empty()) {
      return given_up;
    }
    given_up.count = static_cast<int64>(owed.size());
    Guard([&given_up] {
      given_up.at = outbox::pg::TakeReadings(given_up.count);
      outbox::days::EnsureDayTables(outbox::days::DayTableKind::kOutcome, given_up.at,
                                    given_up.at + given_up.count - 1);
    });
    std::vector<int64> routes, times;
    std::vector<Cell> ids;
    for (const Owed& one : owed) {
      routes.push_back(one.route_id);
      times.push_back(one.created_at);
      ids.push_back(Cell(one.id));
    }
    RunSql(
        Access::kWrite,
        "INSERT INTO outbox_internal.outcome (at, route_id, created_at, id, replay, outcome, attempts, topic, "
        "error_message) "
        "SELECT timestamptz 'epoch' + ($4::bigint - 1 + row_number() OVER ()) * interval '1 microsecond', u.route_id, "
        "timestamptz 'epoch' + u.micros * interval '1 microsecond', u.id, 0, 'skipped', 0, '', $5 "
        "FROM unnest($1::bigint[], $2::bigint[], $3::uuid[]) AS u (route_id, micros, id)",
        {ArrayLiteral(routes), ArrayLiteral(times), ArrayLiteral(ids), Cell(std::to_string(given_up.at)),
         Cell(kBegun)});
    return given_up;
  }

  // Call when erasing has ended early: what was not erased is still the routes' to send, and given up no more.
  static void TakeBack(const Erased& erased, const GivenUp& given_up, std::vector<Owed>* owed) {
    std::vector<int64> routes, times;
    std::vector<Cell> ids;
    std::vector<Owed> gone;
    for (Owed& one : *owed) {
      if (erased.contains({one.created_at, one.id})) {
        gone.push_back(std::move(one));
        continue;
      }
      routes.push_back(one.route_id);
      times.push_back(one.created_at);
      ids.push_back(Cell(one.id));
    }
    *owed = std::move(gone);
    RunSql(Access::kWrite,
           "DELETE FROM outbox_internal.outcome o USING unnest($3::bigint[], $4::bigint[], $5::uuid[]) AS u (route_id, "
           "micros, id) WHERE " NOTED
           " AND o.route_id = u.route_id AND o.id = u.id AND o.created_at = timestamptz 'epoch' + u.micros * interval "
           "'1 microsecond'",
           {Cell(std::to_string(given_up.at)), Cell(std::to_string(given_up.at + given_up.count)), ArrayLiteral(routes),
            ArrayLiteral(times), ArrayLiteral(ids)});
  }

  // Call when it is erased for everybody: what the notes say is settled. Returns of how many it is not certain that
  // nobody has sent them.
  int64 SettleNotes(const std::vector<Owed>& owed, const GivenUp& given_up) {
    if (owed.empty()) {
      return 0;
    }
    const std::set<int64> standing = StillStanding(lanes_);
    const auto stands = [&standing](const Owed& one) { return standing.contains(one.route_id); };
    const auto known = static_cast<int64>(std::count_if(owed.begin(), owed.end(), stands));
    RunSql(Access::kWrite,
           "UPDATE outbox_internal.outcome o SET error_message = CASE WHEN o.route_id = ANY ($3::bigint[]) THEN $4 "
           "ELSE $5 END WHERE " NOTED,
           {Cell(std::to_string(given_up.at)), Cell(std::to_string(given_up.at + given_up.count)),
            ArrayLiteral(std::vector<int64>(standing.begin(), standing.end())), Cell(kKnownUnsent), Cell(kMayBeSent)});
    return static_cast<int64>(owed.size()) - known;
  }

  // Call at the end: what an earlier call noted, and was ended before it could settle, is settled where it is erased
  // now.
  void SettleLeftNotes() const {
    Erased begun;
    for (const Row& row : RunSql(Access::kWrite,
                                 "SELECT (extract(epoch FROM o.created_at) * 1000000)::bigint, o.id FROM "
                                 "outbox_internal.outcome o WHERE o.outcome = 'skipped' AND o.error_message = $1",
                                 {Cell(kBegun)})) {
      begun.emplace(Number(row[0]), row[1].value());
    }
    if (begun.empty()) {
      return;
    }
    std::vector<int64> times;
    std::vector<Cell> ids;
    WalkLog(OfKey(OldestRetained().value_or(0), end_), [&](const WalkedEvent& event) {
      std::string id = outbox::UuidText(event.id);
      if (event.forgotten && begun.contains({event.created_at, id})) {
        times.push_back(event.created_at);
        ids.push_back(Cell(std::move(id)));
      }
    });
    RunSql(Access::kWrite,
           "UPDATE outbox_internal.outcome o SET error_message = $4 FROM unnest($1::bigint[], $2::uuid[]) AS u "
           "(micros, id) WHERE o.error_message = $3 AND o.id = u.id AND o.created_at = timestamptz 'epoch' + u.micros "
           "* interval '1 microsecond'",
           {ArrayLiteral(times), ArrayLiteral(ids), Cell(kBegun), Cell(kErasedAfterAll)});
  }

  // What lies beside the log: parked events and copies of replays, by route, and what came by another way than emit().
  // An event of `kept_at`, which is kept in the log, is not counted once more for being parked.
  int64 CountBeside(std::vector<int64> kept_at) {
    std::sort(kept_at.begin(), kept_at.end());
    int64 count = std::strtoll(
        RunSql(Access::kWrite,
               "SELECT count(*) FROM outbox_internal.foreign_event WHERE aggregate_type = $1 AND aggregate_id = $2",
               {Cell(key_.type), Cell(key_.id)})[0][0]
            .value()
            .c_str(),
        nullptr, 10);
    for (const Row& row : RunSql(Access::kWrite,
                                 "SELECT CASE WHEN replay = 0 THEN (extract(epoch FROM created_at) * 1000000)::bigint "
                                 "END, count(*) FROM outbox_internal.parked WHERE aggregate_type = $1 AND aggregate_id "
                                 "= $2 AND created_at < $3::timestamptz GROUP BY 1",
                                 {Cell(key_.type), Cell(key_.id), Cell(UnixMicrosText(end_))})) {
      if (!row[0] || !std::binary_search(kept_at.begin(), kept_at.end(), Number(row[0]))) {
        count += Number(row[1]);
      }
    }
    return count;
  }

  // Removes the key's parked events in any state, except those being sent just now, which stay for another try; returns
  // how many.
  int64 RemoveParked() {
    LockToWrite({"parked"});
    std::vector<ParkedKey> keys;
    std::vector<int64> routes;
    for (const Row& row :
         RunSql(Access::kWrite,
                "SELECT p.route_id, (extract(epoch FROM p.created_at) * 1000000)::bigint, p.id, p.replay FROM "
                "outbox_internal.parked p WHERE p.aggregate_type = $1 AND p.aggregate_id = $2 AND p.created_at < "
                "$3::timestamptz ORDER BY p.created_at, p.route_id, p.id, p.replay",
                {Cell(key_.type), Cell(key_.id), Cell(UnixMicrosText(end_))})) {
      keys.push_back(ReadParkedKey(row));
      routes.push_back(keys.back().route_id);
    }
    KeepRoutes(std::move(routes));
    int64 gone = 0;
    std::set<RouteKey> left;
    for (size_t at = 0; at < keys.size(); at += kParkedAtOnce) {
      const auto from = keys.begin() + static_cast<long>(at);
      const std::vector<ParkedRow> rows =
          LockNotSent({from, from + static_cast<long>(std::min(kParkedAtOnce, keys.size() - at))});
      if (rows.empty()) {
        continue;
      }
      outbox::pg::NoteParkedChange();
      Remove(rows, "skipped");
      gone += static_cast<int64>(rows.size());
      for (const ParkedRow& row : rows) {
        left.emplace(row.route_id, row.order_key);
      }
    }
    // When all are gone: a row that became due would be looked for once more for each batch.
    Promote({left.begin(), left.end()});
    return gone;
  }

  bool AnyParked() {
    LockToWrite({"parked"});  // it may come to RemoveParked() once more
    return !RunSql(
                Access::kWrite,
                "SELECT FROM outbox_internal.parked WHERE aggregate_type = $1 AND aggregate_id = $2 AND created_at < "
                "$3::timestamptz LIMIT 1",
                {Cell(key_.type), Cell(key_.id), Cell(UnixMicrosText(end_))})
                .empty();
  }

  int64 RemoveForeign() {
    return static_cast<int64>(
        RunSql(Access::kWrite,
               "DELETE FROM outbox_internal.foreign_event WHERE aggregate_type = $1 AND aggregate_id = $2 RETURNING 1",
               {Cell(key_.type), Cell(key_.id)})
            .size());
  }

  // The days of the log, as time ranges.
  static std::vector<std::pair<int64, int64>> Days() {
    std::vector<std::pair<int64, int64>> days;
    for (const Row& row :
         RunSql(Access::kWrite,
                "SELECT (extract(epoch FROM d.day::timestamp) * 1000000)::bigint FROM (SELECT g.day FROM "
                "outbox_internal.log_table g WHERE g.day IS NOT NULL UNION SELECT (s.created_at AT TIME ZONE "
                "'UTC')::date FROM outbox_internal.log_spare s) d ORDER BY 1")) {
      const int64 start = Number(row[0]);
      days.emplace_back(start, start + USECS_PER_DAY);
    }
    return days;
  }

  // Counts it if it is to be kept.
  bool Erases(const Found& event, Counts* counts) const {
    if (undelivered_ || !event.undelivered) {
      return true;
    }
    counts->kept++;
    counts->kept_at.push_back(event.created_at);
    return false;
  }

 private:
  WalkFilter OfKey(int64 since, int64 until) const {
    WalkFilter filter;
    filter.since = since;
    filter.until = std::min(until, end_);
    filter.aggregate_type = outbox::LikeText(key_.type);
    filter.aggregate_id = key_.id;
    return filter;
  }

  std::vector<KeptEvent> RowsOfKey(int64 since, int64 until) const {
    std::vector<KeptEvent> rows;
    WalkLog(OfKey(since, until), [&rows](const WalkedEvent& event) {
      if (!event.forgotten && event.erasable) {
        rows.emplace_back(event);
      }
    });
    return rows;
  }

  AggregateKey key_;
  bool undelivered_;
  int64 end_;         // what was made from then on, Unix microseconds, is left alone
  LanesSaved lanes_;  // and so is what was committed since
};

// The lock was taken before the rows were looked up, so they are where they were.
void Blank(const std::vector<Found>& rows, const Forgetter& forgetter, Counts* counts, Erased* erased) {
  for (const Found& row : rows) {
    if (!forgetter.Erases(row, counts)) {
      continue;
    }
    bool done = false;
    const auto note = [&] {
      counts->forgotten += done;
      if (done) {
        erased->emplace(row.created_at, outbox::UuidText(row.id));
      }
      if (row.unsent) {
        counts->erased_unsent = true;
      }
    };
    try {
      Guard([&row, &done] {
        Relation day = table_open(row.table, RowExclusiveLock);
        outbox::log::BlankRow(day, row.block, row.offset, row.id, &done);
        table_close(day, NoLock);
        CHECK_FOR_INTERRUPTS();
      });
    } catch (...) {
      note();
      throw;
    }
    note();
  }
}

std::string HashOfKey(const AggregateKey& key) {
  return RunSql(Access::kWrite, "SELECT encode(sha256(convert_to($1, 'UTF8')), 'hex')", {Cell(key.id)})[0][0].value();
}

// The key itself is left out: it is often personal data.
JsonObject AuditedKey(const AggregateKey& key) {
  return JsonObject().Add("aggregate_type", Cell(key.type)).Add("key_sha256", Cell(HashOfKey(key)));
}

void LookOnly(Forgetter* forgetter, bool undelivered, Counts* counts) {
  for (const Found& row : forgetter->FindRows(OldestRetained().value_or(0), forgetter->end(), nullptr)) {
    counts->forgotten += forgetter->Erases(row, counts);
  }
  (undelivered ? counts->given_up : counts->kept) += forgetter->CountBeside(counts->kept_at);
}

// What waits beside the log. Lanes may park more of the key meanwhile.
void GiveUpParked(Forgetter* forgetter, Batches* batches, Counts* counts) {
  constexpr int kTries = 20;
  for (int tries = 0; tries < kTries; tries++) {
    counts->given_up += forgetter->RemoveParked();
    batches->Commit();
    if (!forgetter->AnyParked()) {
      break;
    }
    batches->GiveWay();
  }
}

// Locks the tables that may have events of the day until the transaction ends: its own, if there is one, and the spare
// one.
void LockDay(int32 day) {
  Guard([day] {
    for (const Oid table :
         {outbox::days::FindDayTable(outbox::days::DayTableKind::kLog, day), outbox::days::SpareTable()}) {
      Relation relation = OidIsValid(table) ? try_table_open(table, RowExclusiveLock) : nullptr;
      if (relation != nullptr) {
        table_close(relation, NoLock);
      }
    }
    ForceSyncCommit();
  });
}

void EraseDay(int64 since, int64 until, bool undelivered, Forgetter* forgetter, Batches* batches, Counts* counts) {
  const int32 day = outbox::days::DayOfMicros(since);
  std::vector<Owed> owed;
  GivenUp given_up;
  if (undelivered) {
    (void)forgetter->FindRows(since, until, &owed);
    batches->Commit();  // releases what was locked for looking, the outcomes that are written to among them
    if (!owed.empty()) {
      LockDay(day);  // whoever has it locked for long is waited for before anything is noted
    }
    given_up = forgetter->GiveUp(owed);
    batches->Commit();
  }
  counts->erased_unsent = false;
  Erased erased;
  std::exception_ptr ended;
  try {
    outbox::pg::InSubtransaction([&] {
      OUTBOX_FAULT_POINT("forget.given_up");
      LockDay(day);
      Blank(forgetter->FindRows(since, until, nullptr), *forgetter, counts, &erased);
    });
  } catch (...) {  // canceled, say: what is not erased will be sent
    if (given_up.count == 0) {
      throw;
    }
    ended = std::current_exception();
    Forgetter::TakeBack(erased, given_up, &owed);
  }
  if (undelivered && counts->erased_unsent) {
    outbox::pg::NoteErasure();
  }
  counts->given_up += static_cast<int64>(owed.size());
  batches->Commit();
  OUTBOX_FAULT_POINT("forget.erased");
  if (!owed.empty()) {
    counts->in_hand += forgetter->SettleNotes(owed, given_up);
    batches->Commit();
  }
  if (ended) {
    std::rethrow_exception(ended);
  }
}

void Erase(const AggregateKey& key, bool undelivered, const Cell& reason, Batches* batches, Counts* counts) {
  // Written first: erasing cannot be undone, and must not happen without a row that names its author.
  WriteAudit("forget", Cell(), Cell(), AuditedKey(key).Add("undelivered", Cell(undelivered ? "true" : "false")),
             reason);
  batches->Commit();
  Forgetter forgetter(key, undelivered);
  batches->Commit();  // releases what was locked for counting
  if (undelivered) {
    GiveUpParked(&forgetter, batches, counts);
    counts->given_up += forgetter.RemoveForeign();
    batches->Commit();
  }
  for (const auto& [since, until] : Forgetter::Days()) {
    EraseDay(since, until, undelivered, &forgetter, batches, counts);
  }
  if (undelivered) {  // a lane or a replay had read it, and has parked it since, or is about to
    Guard(outbox::parked::AwaitParking);
    GiveUpParked(&forgetter, batches, counts);
  }
  forgetter.SettleLeftNotes();
  batches->Commit();
  counts->kept += forgetter.CountBeside(counts->kept_at);
  if (undelivered && counts->kept > 0) {
    outbox::pg::NoteErasure();  // it is being sent just now; it is put down, and another call finds it
  }
  WriteAudit("forget", Cell(), Cell(),
             AuditedKey(key)
                 .Add("forgotten", counts->forgotten)
                 .Add("given_up", counts->given_up)
                 .Add("in_hand", counts->in_hand)
                 .Add("kept", counts->kept),
             reason);
  batches->Commit();
}

void Tell(const Counts& counts, bool undelivered, bool dry_run) {
  const int64 open = OpenEmitters();
  const std::string later = open == 0 ? ""
                                      : TellOpenEmitters(open) + ": what " +
                                            (open == 1 ? "it commits" : "they commit") + " of this key is left alone.";
  const std::string again = open == 0 ? "" : "Call it again when that is over: pg_stat_activity, pg_prepared_xacts.";
  if (counts.forgotten == 0 && counts.given_up == 0 && counts.kept == 0) {
    Notice("nothing is kept of that key", later,
           "Type and id are compared as they are: case and spaces count, and a * stands for itself. What is erased "
           "already does not count." +
               (again.empty() ? "" : " " + again));
    return;
  }
  std::string text =
      (dry_run ? "dry run: would erase " : "erased ") + outbox::CountText(counts.forgotten, "event") + " of the log";
  if (undelivered) {
    text += std::string(", and ") + (dry_run ? "give" : "gave") + " up what was undelivered";
  }
  if (counts.kept > 0) {
    text += std::string(", and ") + (dry_run ? "keep " : "kept ") +
            outbox::CountText(counts.kept, "that is undelivered", "that are undelivered");
  }
  std::string hint = dry_run && (counts.forgotten > 0 || counts.given_up > 0)
                         ? "dry_run => false erases them. It cannot be undone."
                         : "";
  if (counts.kept > 0 && !undelivered) {
    hint += std::string(hint.empty() ? "" : " ") +
            "undelivered => true erases what is undelivered as well: it is never sent then.";
  }
  std::string detail = counts.in_hand == 0 ? ""
                                           : "Of what it gave up, " + std::to_string(counts.in_hand) +
                                                 " may have been sent before: their lanes had events in hand, and no "
                                                 "answer.";
  for (const auto& [more, to] : {std::pair(later, &detail), std::pair(again, &hint)}) {
    *to += (to->empty() || more.empty() ? "" : " ") + more;
  }
  Notice(text, detail, hint);
}

}  // namespace

OUTBOX_FUNCTION(outbox_forget) {
  Cell type = TextArgument(fcinfo, 0);
  Cell id = TextArgument(fcinfo, 1);
  const bool undelivered = BooleanArgument(fcinfo, 2, "undelivered");
  Cell reason = CheckReason(TextArgument(fcinfo, 3), false);
  const bool dry_run = BooleanArgument(fcinfo, 4, "dry_run");
  if (!type || !id) {
    throw UserError{ERRCODE_NULL_VALUE_NOT_ALLOWED,
                    type ? "aggregate id must not be null" : "aggregate type must not be null",
                    "What is kept of one key is erased; events without a key belong to nobody.",
                    "For example CALL outbox.forget('customer', '42')."};
  }
  if (!dry_run) {
    RequireWritable("outbox.forget()");
  }
  const AggregateKey key{*type, *id};
  Batches batches(fcinfo, "outbox.forget()", !dry_run);
  Counts counts;
  if (dry_run) {
    Forgetter forgetter(key, undelivered);
    LookOnly(&forgetter, undelivered, &counts);
  } else {
    Erase(key, undelivered, reason, &batches, &counts);
  }
  Tell(counts, undelivered, dry_run);
  return batches.Result({Cell(std::to_string(counts.forgotten)), Cell(std::to_string(counts.kept))});
}
