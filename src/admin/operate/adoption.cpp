#include "admin/operate/adoption.h"

#include <functional>
#include <map>
#include <memory>
#include <set>

#include "admin/common/operation.h"
#include "admin/common/write_lock.h"
#include "admin/guard/firing.h"
#include "admin/guard/loss.h"
#include "admin/lookup/event_walk.h"
#include "admin/operate/foreign_event.h"
#include "base/fault_point.h"
#include "days/drop.h"
#include "days/log_table_list.h"
#include "emit/insert.h"
#include "pg/clock.h"
#include "pg/log_line.h"
#include "pg/transaction_end.h"

extern "C" {
#include "catalog/indexing.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "storage/itemptr.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/jsonb.h"
}

namespace outbox::admin {

namespace {

// Numbers for groups of events. Every cluster has handed out more transaction ids than this before it is first started.
constexpr uint64 kEnd = days::kAdoptedEnd;
constexpr uint64 kEverybody = kEnd - 1;  // when they are used up: what some route lacks goes to all the dump's routes,
constexpr uint64 kNobody = kEnd - 2;     // and all the rest is one group
constexpr const char* kBeginOfNumbers = "3";

constexpr int kBatch = 1000;
constexpr int kRowsAtOnce = 100;  // rows inserted at once,
constexpr size_t kBytesAtOnce = size_t{4} << 20;

using RouteIds = std::vector<int64>;

std::string Literal(const RouteIds& ids) {
  std::string text = "{";
  for (int64 id : ids) {
    text += (text.size() > 1 ? "," : "") + std::to_string(id);
  }
  return text + "}";
}

struct Adoption {
  bool pending = false;  // the phase
  bool nothing = false;
  std::string home;
  int64 begun_at = 0;  // Unix microseconds
  Cell done_to;        // text
  int64 first = 0;
  Cell later;  // literal of text[]
};

struct Start {
  int64 route_id = 0;
  Snapshot snapshot;
  int64 time = 0;
};

std::vector<Row> RestoredRoutes() {
  return RunSql(Access::kWrite,
                "SELECT r.id, r.name FROM outbox.route r WHERE EXISTS (SELECT FROM outbox_internal.lane l "
                "WHERE l.route_id = r.id AND l.home IS DISTINCT FROM outbox_internal.home()) ORDER BY r.id");
}

// In the order of RestoredRoutes(). Raises if it is not known what a route lacks. Its server may still be missing: that
// waits, and is told of.
std::vector<RouteEvents> EventsOfRestored() {
  std::vector<std::string> names;
  for (Row& row : RestoredRoutes()) {
    names.push_back(std::move(row[1].value()));
  }
  return RouteEvents::OfEach(names, Positions::kAsStored, RouteEvents::Must::kKnowTopics);
}

// Decides what becomes of an event: its group's number, made if it is the first of its group.
class Judge {
 public:
  explicit Judge(const Adoption& adoption) {
    for (const Row& row :
         RunSql(Access::kWrite,
                "SELECT s.key, s.value ->> 'snapshot', s.value ->> 'time' FROM outbox_internal.adoption a, "
                "jsonb_each(a.starts) s ORDER BY s.key::bigint")) {
      starts_.push_back({Number(row[0]), ParseSnapshot(row[1].value()), Number(row[2])});
    }
    if (adoption.pending) {
      routes_ = EventsOfRestored();
    }
    for (const Row& row : RunSql(
             Access::kWrite, "SELECT wanted, before, passed, xid FROM outbox_internal.adopted WHERE xid >= $1::bigint",
             {Cell(std::to_string(adoption.first))})) {
      known_[row[0].value() + row[1].value() + row[2].value()] = static_cast<uint64>(Number(row[3]));
    }
  }

  // While it is known where the original's lanes were. *wanted: some route had still to get it; *moved_behind: one had
  // been moved behind it.
  uint64 NumberFor(const WalkedEvent& event, bool* wanted, bool* moved_behind) {
    RouteIds lack, before, passed;
    for (const RouteEvents& route : routes_) {
      const RouteEvents::Fate fate = route.FateOf(event);
      if (fate == RouteEvents::Fate::kPending) {
        lack.push_back(route.route_id());
      } else if (fate == RouteEvents::Fate::kPassedOver) {
        passed.push_back(route.route_id());
      }
    }
    for (const Start& start : starts_) {
      if (event.created_at < start.time && start.snapshot.Visible(event.xid)) {
        before.push_back(start.route_id);
      }
    }
    *wanted = !lack.empty();
    *moved_behind = !passed.empty();
    std::string key = Literal(lack) + Literal(before) + Literal(passed);
    auto found = known_.find(key);
    if (found == known_.end()) {
      found = known_.emplace(key, Make(lack, before, passed)).first;
    }
    return found->second;
  }

 private:
  uint64 Make(const RouteIds& lack, const RouteIds& before, const RouteIds& passed) {
    uint64 next =
        static_cast<uint64>(Number(RunSql(Access::kWrite,
                                          "SELECT coalesce(max(xid) + 1, $1::bigint) FROM outbox_internal.adopted "
                                          "WHERE xid < $2::bigint",
                                          {Cell(kBeginOfNumbers), Cell(std::to_string(kNobody))})[0][0]));
    const bool full = next >= kNobody;
    RouteIds all;
    for (const Start& start : starts_) {
      all.push_back(start.route_id);
    }
    if (full) {
      next = lack.empty() ? kNobody : kEverybody;
    }
    RunSql(Access::kWrite,
           "INSERT INTO outbox_internal.adopted (xid, wanted, before, passed) VALUES ($1::bigint, $2::bigint[], "
           "$3::bigint[], $4::bigint[]) ON CONFLICT (xid) DO UPDATE SET wanted = excluded.wanted, before = "
           "excluded.before, passed = excluded.passed",
           {Cell(std::to_string(next)), Cell(Literal(full && !lack.empty() ? all : lack)),
            Cell(Literal(full ? RouteIds() : before)), Cell(Literal(full ? RouteIds() : passed))});
    return next;
  }

  std::vector<Start> starts_;
  std::vector<RouteEvents> routes_;
  std::map<std::string, uint64> known_;
};

// --- a batch of rows ---

constexpr int kForeignEvent = 4;  // after its location, transaction id and created_at

struct BatchResult {
  int64 looked = 0;
  int64 moved = 0;
  TimestampTz last = 0;
};

std::string_view TextAt(HeapTuple row, TupleDesc columns, int number) {
  const text* value = Detoasted<text>(row, columns, number);
  return value == nullptr ? std::string_view() : std::string_view(emit::Bytes(value), emit::Size(value));
}

int64 CreatedAt(HeapTuple row, TupleDesc columns) {
  bool null = false;
  return DatumGetTimestampTz(SPI_getbinval(row, columns, 3, &null)) + kPgEpochMicros;
}

WalkedEvent EventOf(HeapTuple row, TupleDesc columns) {
  bool null = false;
  WalkedEvent event;
  event.xid = U64FromFullTransactionId(DatumGetFullTransactionId(SPI_getbinval(row, columns, 2, &null)));
  event.created_at = CreatedAt(row, columns);
  memcpy(event.id.data(), DatumGetUUIDP(SPI_getbinval(row, columns, kForeignEvent, &null))->data, event.id.size());
  event.aggregate_type = TextAt(row, columns, kForeignEvent + 1);
  event.aggregate_id = TextAt(row, columns, kForeignEvent + 2);
  event.event_type = TextAt(row, columns, kForeignEvent + 3);
  event.topic = TextAt(row, columns, kForeignEvent + 7);
  return event;
}

size_t BytesOf(const emit::NewEvent& event) {
  return event.payload == nullptr ? 0 : emit::Size(event.payload);
}

// Inserts rows of one number, in the order given; few at once, for they may be large. `scratch` is emptied.
void InsertNumbered(SPITupleTable* rows, const uint64* numbers, uint64 count, MemoryContext scratch) {
  MemoryContext before = MemoryContextSwitchTo(scratch);
  emit::NewEvent events[kRowsAtOnce];
  for (uint64 at = 0; at < count;) {
    const uint64 number = numbers[at];
    if (number == 0) {
      at++;
      continue;
    }
    int filled = 0;
    size_t bytes = 0;
    for (; at < count && filled < kRowsAtOnce && numbers[at] == number && bytes < kBytesAtOnce; at++) {
      FillForeignEvent(rows->vals[at], rows->tupdesc, kForeignEvent, &events[filled]);
      events[filled].created_at = CreatedAt(rows->vals[at], rows->tupdesc);
      bytes += BytesOf(events[filled++]);
    }
    emit::InsertAdopted(events, filled, number);
    MemoryContextReset(scratch);
  }
  MemoryContextSwitchTo(before);
}

// The visitor returns the number for an event, or 0 to leave it. Plain, except for the visitor, which is declared
// outside of the guard.
void MoveBatch(const char* home, const char* later, int64 begun_at, const char* done_to,
               const std::function<uint64(const WalkedEvent&)>* judge, BatchResult* result) {
  WithSpiAsOwner(Plan::kIndexOrder, [&] {
    Oid types[] = {TEXTOID, TEXTOID, INT8OID, TEXTOID};
    Datum values[] = {CStringGetTextDatum(done_to), CStringGetTextDatum(home), Int64GetDatum(begun_at),
                      CStringGetTextDatum(later)};
    // What came later gets a transaction id that no snapshot sees.
    if (SPI_execute_with_args(
            "SELECT row_location, CASE WHEN home = $2 THEN xid ELSE xid8 '18446744073709551615' END, "
            "created_at, " OUTBOX_FOREIGN_EVENT
            " FROM outbox_internal.adoptable WHERE created_at > $1::timestamptz AND home = ANY ($4::text[] || $2) "
            "AND received_at <= timestamptz 'epoch' + $3 * interval '1 microsecond' AND NOT subscribed "
            "AND id IS NOT NULL AND xid IS NOT NULL "
            "AND isfinite(created_at) ORDER BY created_at FETCH FIRST 1000 ROWS WITH TIES",
            4, types, values, nullptr, false, 0) != SPI_OK_SELECT) {
      ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("unexpected result of a query of outbox")));
    }
    SPITupleTable* rows = SPI_tuptable;
    const uint64 count = rows->numvals;
    result->looked = static_cast<int64>(count);
    if (count == 0) {
      return;
    }
    bool null = false;
    result->last = DatumGetTimestampTz(SPI_getbinval(rows->vals[count - 1], rows->tupdesc, 3, &null));
    auto* numbers = static_cast<uint64*>(palloc(count * sizeof(uint64)));
    auto* locations = static_cast<Datum*>(palloc(count * sizeof(Datum)));
    int moved = 0;
    MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "outbox adopted rows", ALLOCSET_DEFAULT_SIZES);
    for (uint64 i = 0; i < count; i++) {
      MemoryContext before = MemoryContextSwitchTo(scratch);
      numbers[i] = (*judge)(EventOf(rows->vals[i], rows->tupdesc));
      MemoryContextSwitchTo(before);
      MemoryContextReset(scratch);
      if (numbers[i] != 0) {
        locations[moved++] = SPI_getbinval(rows->vals[i], rows->tupdesc, 1, &null);
      }
      CHECK_FOR_INTERRUPTS();
    }
    InsertNumbered(rows, numbers, count, scratch);
    OUTBOX_FAULT_POINT("adopt.inserted");
    if (moved > 0) {
      Oid type = get_array_type(TIDOID);
      Datum gone =
          PointerGetDatum(construct_array(locations, moved, TIDOID, sizeof(ItemPointerData), false, TYPALIGN_SHORT));
      if (SPI_execute_with_args("DELETE FROM outbox_internal.foreign_event WHERE ctid = ANY ($1)", 1, &type, &gone,
                                nullptr, false, 0) != SPI_OK_DELETE) {
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("unexpected result of a statement of outbox")));
      }
    }
    result->moved = moved;
    MemoryContextDelete(scratch);
  });
}

// --- when all that is pending has been moved ---

std::string SnapshotWithout(const std::vector<uint64>& unseen) {
  Snapshot snapshot;
  snapshot.xmax = kEnd;
  snapshot.xip = unseen;
  snapshot.xmin = unseen.empty() ? kEnd : unseen.front();
  return snapshot.ToText();
}

bool HasOwnLanes() {
  return !RunSql(Access::kWrite, "SELECT FROM outbox_internal.lane WHERE home = outbox_internal.home() LIMIT 1")
              .empty();
}

// A group of events, and the routes that still have to get it, that began after it, and that were moved behind it.
struct Numbered {
  uint64 number = 0;
  std::set<int64> wanted;
  std::set<int64> before;
  std::set<int64> passed;
};

// The elements of a bigint[] without NULLs.
std::set<int64> IdsIn(const std::string& literal) {
  std::set<int64> ids;
  for (size_t at = 1; at < literal.size() && literal[at] != '}'; at = literal.find_first_of(",}", at) + 1) {
    ids.insert(std::strtoll(literal.c_str() + at, nullptr, 10));
  }
  return ids;
}

std::vector<Numbered> NumberedSince(int64 first) {
  std::vector<Numbered> numbers;
  for (const Row& row :
       RunSql(Access::kWrite,
              "SELECT xid, wanted, before, passed FROM outbox_internal.adopted WHERE xid >= $1::bigint ORDER BY xid",
              {Cell(std::to_string(first))})) {
    numbers.push_back(
        {static_cast<uint64>(Number(row[0])), IdsIn(row[1].value()), IdsIn(row[2].value()), IdsIn(row[3].value())});
  }
  return numbers;
}

// Where the lanes begin is noted as of a seek, so that what the original's did is told from what these do: they stand
// where it had come to.
void NoteBeginning(const Cell& route_id, int64 at, const std::string& from, const Cell& to, const Cell& written_to) {
  const Cell time = Cell(std::to_string(at));
  RunSql(Access::kWrite,
         "SELECT outbox_internal.note_lane_start($1::bigint, timestamptz 'epoch' + $2::bigint * interval '1 "
         "microsecond', 'adopt', $3::pg_snapshot, $4::pg_snapshot)",
         {route_id, time, Cell(from), to});
  RunSql(Access::kWrite,
         "UPDATE outbox_internal.lane_start SET written_to = $3::text[] WHERE route_id = $1::bigint AND at = "
         "timestamptz 'epoch' + $2::bigint * interval '1 microsecond' AND $3 IS NOT NULL",
         {route_id, time, written_to});
}

// By route, a literal of text[]: where the original's progress says that something was acknowledged, or its own
// adoption of another dump.
std::map<int64, Cell> WrittenTo() {
  std::map<int64, Cell> written;
  for (const Row& row :
       RunSql(Access::kWrite,
              "SELECT w.route_id, array_agg(DISTINCT w.endpoint) FROM (SELECT l.route_id, "
              "outbox_internal.run_endpoint(p.run) AS endpoint FROM outbox_internal.lane l "
              "CROSS JOIN LATERAL outbox_internal.run_periods(l.route_id, l.lane, 0, '-infinity', 'infinity') p WHERE "
              "l.home IS DISTINCT FROM outbox_internal.home() AND p.run IS NOT NULL UNION ALL "
              "SELECT s.route_id, unnest(s.written_to) FROM outbox_internal.lane_start s WHERE EXISTS (SELECT FROM "
              "outbox_internal.lane l WHERE l.route_id = s.route_id AND l.home IS DISTINCT FROM "
              "outbox_internal.home())) w GROUP BY 1")) {
    written[Number(row[0])] = row[1];
  }
  return written;
}

void LetLanesGo(const Adoption& adoption) {
  const std::vector<Row> routes = RestoredRoutes();
  std::map<int64, Cell> written_to = WrittenTo();
  // Progress and ticks of the original mean nothing here. There may be many; if no others exist, the tables are emptied
  // as a whole.
  const bool all = !HasOwnLanes();
  if (all) {
    pg::Guard([] {
      days::EmptyDayTables(days::DayTableKind::kProgress);
      days::EmptyDayTables(days::DayTableKind::kTick);
    });
  } else {
    RunSql(Access::kWrite, "DELETE FROM outbox_internal.tick");
  }
  const std::vector<Numbered> numbers = NumberedSince(adoption.first);
  for (const Row& route : routes) {
    const int64 id = Number(route[0]);
    std::vector<uint64> unread, undelivered, begun;
    for (const Numbered& one : numbers) {
      if (one.wanted.contains(id)) {
        unread.push_back(one.number);
      }
      if (one.wanted.contains(id) || one.passed.contains(id)) {
        undelivered.push_back(one.number);
      }
      if (!one.before.contains(id)) {
        begun.push_back(one.number);
      }
    }
    if (!all) {
      RunSql(Access::kWrite, "DELETE FROM outbox_internal.progress WHERE route_id = $1::bigint", {route[0]});
    }
    // A topic that is in trouble here leaves again, another number of lanes begins again.
    RunSql(Access::kWrite, "DELETE FROM outbox_internal.side_lane WHERE route_id = $1::bigint", {route[0]});
    // What the original's lanes had been moved behind is in the groups.
    RunSql(Access::kWrite, "DELETE FROM outbox_internal.lane_start WHERE route_id = $1::bigint", {route[0]});
    RunSql(Access::kWrite,
           "UPDATE outbox.route SET start_snapshot = $2::pg_snapshot, start_time = CASE WHEN start_time = '-infinity' "
           "THEN start_time ELSE 'infinity' END, lanes_begun = NULL, common_snapshot = NULL WHERE id = $1::bigint",
           {route[0], Cell(SnapshotWithout(begun))});
    // As if each lane were at the beginning of a window, so that all that was emitted here comes behind it, whatever
    // the clock said then.
    const std::string all_read = SnapshotWithout({});
    const std::string as_it_was = SnapshotWithout(undelivered);
    const Cell to = unread.empty() || adoption.nothing ? Cell() : Cell(all_read);
    const int64 at = pg::Guard([] { return pg::TakeReadings(1); });
    RunSql(Access::kWrite,
           "UPDATE outbox_internal.lane SET owner = NULL, claimed_at = NULL, window_from = $2::pg_snapshot, "
           "window_to = $3::pg_snapshot, done_to = NULL, since = timestamptz 'epoch' + $4::bigint * interval '1 "
           "microsecond', repeats_to = NULL, home = outbox_internal.home() WHERE route_id = $1::bigint",
           {route[0], Cell(as_it_was), to, Cell(std::to_string(at))});
    const std::string from = adoption.nothing ? all_read : SnapshotWithout(unread);
    NoteBeginning(route[0], at, from, to, written_to[id]);
    if (from != as_it_was) {
      RunSql(Access::kWrite,
             "UPDATE outbox_internal.lane SET window_from = $2::pg_snapshot WHERE route_id = $1::bigint",
             {route[0], Cell(from)});
    }
    // Hashed under the original's secret.
    RunSql(Access::kWrite,
           "UPDATE outbox_internal.parked SET xid = NULL, order_key = CASE WHEN order_key IS NOT NULL THEN "
           "outbox_internal.order_key(topic, aggregate_type, aggregate_id) END "
           "WHERE route_id = $1::bigint AND (xid IS NOT NULL OR order_key IS NOT NULL)",
           {route[0]});
  }
  RunSql(Access::kWrite, "UPDATE outbox_internal.adoption SET phase = 'history', done_to = '-infinity'");
  pg::NoteConfigChange();
}

std::optional<Adoption> TakeAdoption() {
  std::vector<Row> rows =
      RunSql(Access::kWrite,
             "SELECT phase, nothing, home, (extract(epoch FROM begun_at) * 1000000)::bigint, done_to, "
             "first, later FROM outbox_internal.adoption FOR UPDATE SKIP LOCKED");
  if (rows.empty()) {
    return std::nullopt;
  }
  const Row& row = rows[0];
  return Adoption{row[0] == "pending", row[1] == "t", row[2].value(), Number(row[3]), row[4], Number(row[5]), row[6]};
}

}  // namespace

void LockLanesToGo() {
  LockToWrite({"route", "side_lane", "lane_start", "lane", "parked", "adoption", "adopted", "tick"});
}

void LockPositionsToGo() {
  LockToWrite({"lane"});
  if (HasRestoredLanes() && !HasOwnLanes()) {
    pg::Guard([] {
      (void)days::LockDayTablesToEmpty(days::DayTableKind::kProgress);
      (void)days::LockDayTablesToEmpty(days::DayTableKind::kTick);
    });
  } else {
    LockPartitionsToWrite("tick");
    LockPartitionsToWrite("progress");
  }
}

bool HasRestoredLanes() {
  return !RunSql(Access::kWrite,
                 "SELECT FROM outbox_internal.lane WHERE home IS DISTINCT FROM outbox_internal.home() LIMIT 1")
              .empty();
}

// Where nothing was noted (a dump restored with --disable-triggers, or under an older version): the rows that came
// first. The original's own are left out of both, for it never sent what was diverted there.
RestoredRows FindRestoredRows() {
  const Row row = RunSql(
      Access::kWrite,
      "WITH here AS (SELECT outbox_internal.home() AS home), "
      "origin AS (SELECT i.system_identifier::text || '/' || i.database::text AS home, i.restored_in FROM "
      "outbox_internal.identity i, here WHERE i.system_identifier::text || '/' || i.database::text <> here.home), "
      "copied AS MATERIALIZED (SELECT f.home, min(f.received_at) AS at FROM "
      "outbox_internal.foreign_event f, origin WHERE NOT f.subscribed AND f.home <> origin.home "
      "GROUP BY 1), "
      "first AS (SELECT coalesce((SELECT restored_in FROM origin), "
      "(SELECT home FROM copied ORDER BY at LIMIT 1), here.home) AS home FROM here) "
      "SELECT first.home, CASE WHEN first.home = here.home THEN '{}' ELSE ARRAY(SELECT c.home FROM "
      "copied c WHERE c.home <> first.home) END FROM first, here")[0];
  return {row[0], row[1]};
}

bool BeginAdoption(const RestoredRows& rows, bool nothing) {
  (void)EventsOfRestored();  // raises, if it has to, before anything is begun
  return !RunSql(
              Access::kWrite,
              "INSERT INTO outbox_internal.adoption (begun_at, home, later, phase, nothing, first, starts) "
              "SELECT clock_timestamp(), $4, $5::text[], 'pending', $1::boolean, "
              "(SELECT coalesce(max(xid) + 1, $2::bigint) FROM outbox_internal.adopted WHERE xid < $3::bigint), "
              "(SELECT coalesce(jsonb_object_agg(r.id, jsonb_build_object('snapshot', r.start_snapshot, 'time', "
              "CASE r.start_time WHEN '-infinity' THEN '-9223372036854775808' WHEN 'infinity' THEN "
              "'9223372036854775807' ELSE (extract(epoch FROM r.start_time) * 1000000)::bigint::text END)), '{}') "
              "FROM outbox.route r WHERE EXISTS (SELECT FROM outbox_internal.lane l WHERE l.route_id = r.id "
              "AND l.home IS DISTINCT FROM outbox_internal.home())) "
              "WHERE NOT EXISTS (SELECT FROM outbox_internal.adoption) RETURNING 1",
              {Cell(nothing ? "t" : "f"), Cell(kBeginOfNumbers), Cell(std::to_string(kNobody)), rows.first, rows.later})
              .empty();
}

AdoptionStep Adopt(int64 rows) {
  AdoptionStep step;
  std::optional<Adoption> adoption = TakeAdoption();
  if (!adoption) {
    return step;
  }
  LockLanesToGo();
  step.under_way = true;
  auto judge = std::make_unique<Judge>(*adoption);
  while (step.looked < rows) {
    int64 sent = 0;
    std::function<uint64(const WalkedEvent&)> number_for = [&](const WalkedEvent& event) -> uint64 {
      bool wanted = false, passed = false;
      const uint64 number = judge->NumberFor(event, &wanted, &passed);
      sent += wanted && !adoption->nothing;
      return (wanted || passed) == adoption->pending ? number : 0;
    };
    BatchResult batch;
    const char* home = adoption->home.c_str();
    const char* done_to = adoption->done_to->c_str();
    const char* later = adoption->later->c_str();
    pg::Guard([&] { MoveBatch(home, later, adoption->begun_at, done_to, &number_for, &batch); });
    step.looked += batch.looked;
    step.sent += sent;
    if (batch.looked > 0) {
      adoption->done_to =
          RunSql(Access::kWrite,
                 "UPDATE outbox_internal.adoption SET done_to = timestamptz 'epoch' + $1::bigint * interval "
                 "'1 microsecond', sent = sent + $2::bigint, kept = kept + $3::bigint RETURNING done_to",
                 {Cell(std::to_string(batch.last + kPgEpochMicros)), Cell(std::to_string(sent)),
                  Cell(std::to_string(batch.moved - sent))})[0][0];
      if (batch.looked >= kBatch) {
        continue;
      }
    }
    if (!adoption->pending) {
      Row total = RunSql(Access::kWrite, "DELETE FROM outbox_internal.adoption RETURNING sent, kept")[0];
      step.under_way = false;
      const char* total_sent = total[0]->c_str();
      const char* total_kept = total[1]->c_str();
      pg::Guard([&] {
        ereport(LOG, (errmsg("outbox: the events of a restored dump are in the log: %s that were still to be sent, %s "
                             "that had been delivered or passed over",
                             total_sent, total_kept),
                      pg::LogEvent("adopted", {{"sent", total_sent}, {"kept", total_kept}})));
      });
      break;
    }
    LetLanesGo(*adoption);
    adoption = TakeAdoption();
    judge = std::make_unique<Judge>(*adoption);
  }
  return step;
}

namespace {

// Transaction ids that are no numbers of adopted events.
std::string OwnNumbers() {
  return "xid >= '" + std::to_string(kEnd) + "'";
}

}  // namespace

// A row of emit() has the transaction id that it says, or was written by a subtransaction of it, whose own is higher;
// and one transaction id never wrote rows that say several. Rows that came by COPY keep the transaction ids of their
// origin. In a dump that is not adopted nobody had emitted before the original's identity came, or there were a row of
// outbox_internal.origin: a transaction id from before that is none of an event that was emitted here. In doubt a row
// is taken for emit()'s, and is sent, perhaps again.
std::string LoadingTransactions(const std::string& log) {
  // The 64 bits of an xmin: the last that there was of its 32.
  const auto whole = [](const std::string& xmin) {
    return "next - mod(mod(next, 4294967296) - " + xmin + " + 4294967296, 4294967296)";
  };
  return "SELECT r.x FROM " + log + " r, (SELECT next, (SELECT min(" + whole("i.xmin::text::bigint") +
         ") FROM outbox_internal.identity i WHERE NOT EXISTS (SELECT FROM outbox_internal.origin)) AS restored "
         "FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::numeric AS next) n) now WHERE r." +
         OwnNumbers() +
         " GROUP BY r.x, now.next, now.restored HAVING count(DISTINCT r.xid) > 1 OR max(r.xid::text::numeric) > " +
         whole("r.x") + " OR min(r.xid::text::numeric) < now.restored";
}

namespace {

int64 MoveLoadedRows(const std::string& table) {
  std::string sql =
      "WITH loaded AS MATERIALIZED (" +
      LoadingTransactions("(SELECT xmin::text::bigint AS x, xid FROM outbox_internal." + table + ")") +
      "), "
      "gone AS (DELETE FROM outbox_internal." +
      table + " d USING loaded l WHERE d.xmin::text::bigint = l.x AND d." + OwnNumbers() +
      " RETURNING d.*), "
      "moved AS (INSERT INTO outbox_internal.foreign_event (created_at, id, aggregate_type, aggregate_id, event_type, "
      "payload, "
      "content_type, headers, topic, deliver_at, xid, home, subscribed) SELECT g.created_at, g.id, g.aggregate_type, "
      "g.aggregate_id, g.event_type, g.payload, g.content_type, g.headers, g.topic, g.deliver_at, g.xid, "
      "outbox_internal.home(), false FROM gone g RETURNING 1) SELECT count(*) FROM moved";
  return Number(RunSql(Access::kWrite, sql.c_str())[0][0]);
}

// Plain. False: another session is changing the table, or it has been dropped meanwhile.
bool LockToRepair(Oid relation, bool wait) {
  if (wait) {
    LockRelationOid(relation, ShareUpdateExclusiveLock);
  } else if (!ConditionalLockRelationOid(relation, ShareUpdateExclusiveLock)) {
    return false;
  }
  return SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relation));
}

}  // namespace

int64 RepairGuards(bool wait) {
  int64 moved = 0;
  for (const Row& row : RunSql(
           Access::kWrite,
           "SELECT relation, trigger, relation_name, trigger_name <> 'ignore_replicated', trigger_name = 'log_guard' "
           "AND (relation_name = 'log_spare' OR (is_partition AND relation_name ~ '^log_[0-9]{8}$')) "
           "FROM outbox_internal.wrong_guard ORDER BY relation_name, trigger_name")) {
    const Oid relation = static_cast<Oid>(Number(row[0]));
    const Oid trigger = static_cast<Oid>(Number(row[1]));
    const bool guard = row[3] == "t";
    if (!pg::Guard([relation, wait] { return LockToRepair(relation, wait); })) {
      continue;
    }
    int64 rows = row[4] == "t" ? MoveLoadedRows(row[2].value()) : 0;
    const char* name = row[2]->c_str();
    pg::Guard([&] {
      SetFiring(relation, trigger, guard);
      ereport(LOG, (errmsg("outbox: a trigger of table \"%s\" had been switched off or changed; it is on again", name),
                    rows == 0 ? 0
                              : errdetail(INT64_FORMAT " rows had come into the log past it, and were moved to "
                                                       "outbox_internal.foreign_event.",
                                          rows),
                    pg::LogEvent("guard_repaired", {{"table", name}})));
    });
    moved += rows;
  }
  return moved;
}

}  // namespace outbox::admin
