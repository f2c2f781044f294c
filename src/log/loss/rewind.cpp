#include "log/loss/rewind.h"

#include <algorithm>
#include <vector>

#include "base/fault_point.h"
#include "days/with_day_table.h"
#include "log/loss/finding.h"
#include "log/loss/lane_history.h"
#include "log/loss/lost_acknowledged.h"
#include "log/loss/lost_parked.h"
#include "log/loss/rewind_plan.h"
#include "log/loss/rewind_words.h"
#include "log/progress/lane_tables.h"
#include "log/progress/side_rows.h"
#include "log/window/row.h"
#include "parked/statements.h"
#include "pg/log_line.h"
#include "pg/sql.h"

namespace outbox::log {

using namespace pg::sql;

namespace {

constexpr int kMostAnHour = 20;  // a server that loses its data again and again is not sent everything each time

// A time as an operator types it, whatever the settings of his session.
void TimeText(int64_t time, std::string* text) {
  struct pg_tm tm;
  fsec_t micros = 0;
  char written[64] = "";
  if (TIMESTAMP_IS_NOBEGIN(time)) {
    snprintf(written, sizeof(written), "-infinity");
  } else if (!TIMESTAMP_IS_NOEND(time) && timestamp2tm(time, nullptr, &tm, &micros, nullptr, nullptr) == 0) {
    snprintf(written, sizeof(written), "%04d-%02d-%02d %02d:%02d:%02d.%06d+00", tm.tm_year, tm.tm_mon, tm.tm_mday,
             tm.tm_hour, tm.tm_min, tm.tm_sec, static_cast<int>(micros));
  }
  text->assign(written);
}

// Lost, and not sent again by itself: seek() or adopt() has put the lanes somewhere else since.
void NoteBeyond(const Asked& asked, const Stretch& stretch, Finding* finding) {
  int64_t at = DT_NOBEGIN;
  int64_t since = DT_NOBEGIN;
  if (FindKept(asked, stretch, 0, finding, &at)) {
    since = EmittedSince(finding->positions.back());
    finding->positions.pop_back();  // no reader is put back to it
  }
  finding->beyond.kept = Min(finding->beyond.kept, at);
  finding->missing_since = Min(finding->missing_since, since);
  finding->beyond.any = true;
}

// What is lost stays so, because nothing is to be sent again.
void NoteMissing(Finding* finding) {
  int64_t since = finding->positions.empty() ? DT_NOBEGIN : DT_NOEND;
  for (const Position& position : finding->positions) {
    since = Min(since, EmittedSince(position));
  }
  finding->missing_since = Min(finding->missing_since, since);
}

void AddStart(const LaneId& lane, Finding* finding) {
  finding->all = true;
  static Statement start = {
      "SELECT l.window_from, l.window_to, l.done_to FROM outbox_internal.lane l"
      " WHERE l.route_id = $1 AND l.lane = $2",
      2,
      {INT8OID, INT4OID},
      nullptr};
  Datum values[] = {Int64GetDatum(lane.route_id), Int32GetDatum(lane.lane)};
  RunStatement(&start, values);
  if (SPI_processed > 0) {
    ReadPosition(0, 0, &finding->positions.emplace_back());
  }
}

// Whether what is lost is sent by what the route was, or as it is now.
void NoteAltered(const Asked& asked, Finding* finding) {
  int64_t since = finding->beyond.kept;
  if (finding->wanted) {
    since = Min(since, finding->all ? finding->beyond.border : finding->kept);
  }
  if (finding->wanted || finding->beyond.any) {
    FindAltered(asked.route_id, since, finding);
  }
  if (!TIMESTAMP_IS_NOBEGIN(finding->altered.at)) {
    TimeText(finding->altered.at, &finding->altered.at_text);
  }
}

// Notes when the position that was found last was saved.
void Keep(int64_t at, Finding* finding) {
  if (at < finding->kept) {
    finding->kept = at;
    finding->kept_at.assign(finding->text);
  }
}

// Where the lane stood before anything that it lost itself.
void KeepOfLane(const Asked& asked, const LaneId& lane, const Stretch& own, Finding* finding) {
  int64_t kept = DT_NOBEGIN;
  if (FindKept(asked, own, 0, finding, &kept)) {
    Keep(kept, finding);
  } else {
    AddStart(lane, finding);
  }
}

// What side lanes had delivered is lost: by topic, where they stood before that. Where no topic can be told the lane
// itself goes back for it.
void KeepOfSides(const Asked& asked, const LaneId& lane, const Stretch& own, Finding* finding) {
  finding->numbers.clear();
  ListSides(asked, own, DT_NOBEGIN, false, &finding->numbers);
  for (const int32 side : finding->numbers) {
    int64_t at = DT_NOBEGIN;
    if (!FindKept(asked, own, side, finding, &at)) {
      AddStart(lane, finding);
      continue;
    }
    Keep(at, finding);
    ListLostTopics(asked, own, side, finding);
    const bool several = finding->names.empty() ||
                         std::find(finding->names.begin(), finding->names.end(), "...") != finding->names.end();
    if (several || finding->sides.topics.size() + finding->names.size() > kMostSides ||
        AlteredSince(asked.route_id, at)) {
      continue;
    }
    for (std::string& name : finding->names) {
      finding->sides.topics.push_back({std::move(name), finding->positions.back()});
    }
    finding->positions.pop_back();
  }
}

// What earlier lanes of the route acknowledged. It was already checked where this lane, or all lanes of a later time,
// have noted a newer run. What is not sent again is reported by the first lane.
bool LookBack(const Asked& asked, Finding* finding) {
  bool lost = false;
  Asked then = asked;
  then.looked = finding->looked_ever;
  for (const Former& time : finding->former) {
    if (then.looked >= finding->told) {
      break;  // no run has told since what it still had
    }
    Stretch stretch{0, time.after, time.until, time.lanes};
    finding->lost.clear();
    const int64_t looked = FindLost(then, stretch, finding);
    if (!finding->lost.empty() && time.reached) {
      lost = true;
      Keep(FindKeptOfLost(then, stretch, time.start, finding), finding);
    } else {
      for (const int32 number : finding->lost) {
        NoteBeyond(then, {number, time.after, time.until}, finding);
      }
    }
    then.looked = Max(then.looked, looked);
  }
  return lost;
}

// Whether any of these noted anything. Their times follow each other without a gap.
bool AnyFormerNoted(const Asked& asked, const std::vector<Former>& former) {
  Stretch all{0, DT_NOBEGIN, DT_NOEND, 0};
  for (const Former& time : former) {
    all.until = all.lanes == 0 ? time.until : all.until;
    all.after = time.after;
    all.lanes = Max(all.lanes, time.lanes);
  }
  return all.lanes > 0 && AnyNoted(asked, all);
}

bool AnyElsewhere(const Asked& asked, const Stretch& own, const Finding& finding) {
  const int64_t since = finding.all ? finding.beyond.border : finding.kept;
  bool any = HadElsewhere(asked, own, since);
  for (size_t i = 0; i < finding.former.size() && finding.former[i].reached && !any; i++) {
    const Former& time = finding.former[i];
    any = HadElsewhere(asked, {0, time.after, time.until, time.lanes}, since);
  }
  return any;
}

// Plain.
void Find(Asked* asked, const LaneId& lane, const LaneRow& lane_row, const Stretch& own, bool* crossed,
          Finding* finding) {
  asked->looked = finding->looked;
  ReadFormer(lane.route_id, lane_row.since, &finding->former, &finding->beyond.border);
  if (!TIMESTAMP_IS_NOBEGIN(finding->beyond.border)) {
    TimeText(finding->beyond.border, &finding->beyond.border_at);
  }
  const auto unreached =
      std::find_if(finding->former.begin(), finding->former.end(), [](const Former& time) { return !time.reached; });
  if (unreached != finding->former.end() && (lane.lane != 0 || BeganBeforeTheLog(lane))) {
    finding->former.erase(unreached, finding->former.end());
  }
  if (finding->looked >= finding->told) {
    // No run has told what it still had since the lane was looked at; none ever has where there was only one.
    finding->seen = finding->seen || AnyFormerNoted(*asked, finding->former);
    return;
  }
  finding->lost.clear();
  FindLost(*asked, own, finding);
  const bool own_lost = !finding->lost.empty();
  *crossed = LookBack(*asked, finding);
  FindLostParked(*asked, own, finding);
  KeepOwnParked(lane, finding);
  finding->seen |= !finding->parked.events.empty();
  finding->wanted = own_lost || *crossed;
  if (!finding->wanted) {
    return;
  }
  if (*crossed || LaneLost(*asked, own)) {
    KeepOfLane(*asked, lane, own, finding);
  }
  KeepOfSides(*asked, lane, own, finding);
  if (AllSinceAdoption(*asked, lane.lane, *finding)) {  // then what is older is hardly there
    finding->beyond.any = true;
    finding->beyond.kept = DT_NOBEGIN;
    finding->missing_since = DT_NOBEGIN;
  }
  ReadPresent(lane, finding);
  finding->elsewhere = AnyElsewhere(*asked, own, *finding);
}

// Decides from where the lane and its side lanes read again, and parks again what they will not read. finding->why_not
// is empty after if the lane is put back to *position.
Status Plan(const Asked& asked, const LaneId& lane, const parked::ParkedOwner& me, const Stretch& own,
            Position* position, Finding* finding) {
  if (finding->wanted && finding->why_not.empty()) {
    const bool moved = !finding->positions.empty();
    *position = moved ? Oldest(finding->positions) : *position;
    PlanSides(*position, moved, finding);
  }
  if (finding->why_not.empty()) {
    if (Status status = SendParkedAgain(asked, lane, me, own, *position, finding); !status.ok()) {
      return status;
    }
  } else {
    finding->parked.missing = static_cast<int64_t>(finding->parked.events.size());
  }
  if (!finding->loss.any) {
    finding->why_not = "nothing is lost";
  } else if (!finding->wanted && finding->parked.again == 0 && finding->why_not.empty()) {
    finding->why_not = finding->beyond.any ? "its lanes have begun anew since" : "the log has it no more";
  }
  return Status();
}

// Writes what Find() and Plan() have come to. Returns false if the lane has another owner. Plain.
bool Put(const LaneId& lane, const parked::ParkedOwner& me, int64_t since, int64_t at, const Position& position,
         std::string_view server_run, const std::string& reason, bool crossed, const Finding& finding) {
  const bool rewound = finding.why_not.empty();
  if (!finding.loss.any) {
    pg::CommitWithoutFlush();  // after a crash the lane is checked once more
  }
  // Also where nothing is sent again, or lost: the row says that the lane was checked under this run.
  if (AppendProgress(lane, me.incarnation, since, at, position, {}, server_run, nullptr,
                     rewound ? std::string_view(finding.loss.survived) : std::string_view()) != Appended::kWritten) {
    return false;
  }
  if (rewound) {
    NoteRepeats(lane);
  }
  LaneId side = lane;
  for (const SideMove& move : finding.sides.moves) {
    side.side = move.side.side;
    AppendProgress(side, me.incarnation, since, at, move.position);
    PutSide(lane, move.side, move.position);
  }
  if (rewound && crossed) {
    MoveStart(lane.route_id, since, position);
  }
  if (finding.loss.any) {
    WriteAudit(lane, server_run, finding, rewound, reason);
  }
  return true;
}

}  // namespace

Status RewindLane(const LaneId& lane, uint64_t incarnation, const std::string& server_run, bool resend,
                  relay::Loss* loss) {
  *loss = {};
  bool owner = true;
  Finding finding;
  LaneRow lane_row;
  const parked::ParkedOwner me{lane, incarnation};
  Asked asked{lane.route_id, server_run};
  Stretch own{lane.lane};
  bool crossed = false;
  Status status = TryInTransaction([&] {
    pg::CommitWithoutFlush();  // it locks, and writes nothing
    owner = ReadLaneRow(lane, &lane_row) && parked::LockLane(me, lane_row.since);
    own.after = lane_row.since;
    if (!owner || !FindRun(asked, own, &finding)) {
      return;
    }
    Find(&asked, lane, lane_row, own, &crossed, &finding);
    if (resend && RewindsOfTheHour(lane) >= kMostAnHour) {
      finding.why_not = "it has done so twenty times within an hour";
    }
    NoteAltered(asked, &finding);
    if (finding.wanted && (!resend || !finding.why_not.empty() || !finding.altered.at_text.empty())) {
      NoteMissing(&finding);
    }
    TimeText(finding.missing_since, &finding.missing_since_at);
  });
  if (!status.ok() || !owner || !finding.seen) {
    return std::move(status).OfOwner(owner);
  }
  if (!resend) {
    finding.why_not = "option on_lost_writes of the destination is warn";
  }
  Position position = lane_row.position;
  if (status = Plan(asked, lane, me, own, &position, &finding); !status.ok()) {
    return status;
  }
  const bool rewound = finding.why_not.empty();
  const std::string reason = Reason(finding, rewound);
  status = days::TryWithDayTable(days::DayTableKind::kProgress, [&](int64 at) {
    OUTBOX_FAULT_THROW("rewind.before");
    owner = Put(lane, me, lane_row.since, at, position, server_run, reason, crossed, finding);
    OUTBOX_FAULT_THROW("rewind.uncommitted");
  });
  OUTBOX_FAULT_POINT("rewind.after");
  if (!status.ok() || !owner || !finding.loss.any) {
    return std::move(status).OfOwner(owner);
  }
  loss->rewound = rewound;
  loss->missing = !finding.missing_since_at.empty() || finding.parked.missing > 0;
  loss->error = {ErrorClass::kDestination, "LOST_WRITES", Brief(lane, finding, rewound)};
  const std::string described = Describe(lane, finding, rewound);
  const char* text = described.c_str();
  const char* server = finding.server.c_str();
  // It is done, whatever becomes of the line: a process that is to end is interrupted here.
  (void)Try([&] {
    pg::Guard([&] {
      ereport(WARNING, (errmsg("outbox: destination \"%s\": %s", server, text),
                        pg::LogEvent("lost_writes", {{"destination", server}})));
    });
  });
  return Status();
}

}  // namespace outbox::log
