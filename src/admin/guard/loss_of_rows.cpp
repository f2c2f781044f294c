// Undelivered events and rows: the triggers on the log, and on what says which events are undelivered [P]. See loss.h.
#include <vector>

#include "admin/common/query.h"
#include "admin/common/write_lock.h"
#include "admin/guard/cascade.h"
#include "admin/guard/loss.h"
#include "admin/guard/statement_notes.h"
#include "admin/guard/this_statement.h"
#include "base/count_text.h"
#include "days/day_table_ddl.h"
#include "pg/entry.h"
#include "pg/schemas.h"
#include "pg/settings.h"
#include "pg/transaction.h"

extern "C" {
#include "commands/trigger.h"
#include "replication/logicalworker.h"
}

namespace outbox::admin {

namespace {

using pg::Guard;
using pg::UserError;

// The number in a column of a row that is being deleted.
int64 NumberIn(const TriggerData* trigger, const char* column) {
  return Guard([&] {
    bool null = true;
    TupleDesc desc = RelationGetDescr(trigger->tg_relation);
    Datum value = heap_getattr(trigger->tg_trigtuple, SPI_fnumber(desc, column), desc, &null);
    return null ? kEverything : DatumGetInt64(value);
  });
}

// Rows that a statement deletes from outbox_internal.parked or outbox_internal.foreign_event while outbox.allow_loss is
// on.
struct Going {
  int64 rows;
  int routes;
  struct {
    int64 id;
    int64 retrying, blocked, scheduled;
  } of[kRoutesTold];  // of outbox_internal.parked
};
StatementNotes<Going> going;

void NoteGoing(const TriggerData* trigger, bool parked) {
  Going* here = Guard([trigger] { return going.Begun(RelationGetRelid(trigger->tg_relation)); });
  here->rows++;
  if (!parked) {
    return;
  }
  const int64 id = NumberIn(trigger, "route_id");
  int i = 0;
  while (i < here->routes && here->of[i].id != id) {
    i++;
  }
  if (i == static_cast<int>(kRoutesTold)) {
    return;
  }
  if (i == here->routes) {
    here->of[here->routes++].id = id;
  }
  const std::string state = Guard([trigger]() -> const char* {
    TupleDesc desc = RelationGetDescr(trigger->tg_relation);
    return SPI_getvalue(trigger->tg_trigtuple, desc, SPI_fnumber(desc, "state"));
  });
  (state == "retrying" ? here->of[i].retrying : state == "blocked" ? here->of[i].blocked : here->of[i].scheduled)++;
}

// Identity and events that were never sent are not among what waits behind the lanes. Returns false
// for other tables.
bool JudgeApart(const std::string& name, const std::string& command) {
  const bool identity = name == "outbox_internal.identity";
  if (!identity && name != "outbox_internal.foreign_event") {
    return false;
  }
  if (!identity && IsLogicalWorker()) {
    return true;  // the publisher has adopted what it brought, and takes it back
  }
  if (!pg::settings.allow_loss) {
    throw UserError{
        ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot " + command + " " + name,
        identity ? "It says that this outbox belongs to this server: with another one, or none, nothing is published."
                 : "It holds events that reached the log by another way than emit(), and that nobody has sent.",
        std::string(identity ? "outbox.adopt() makes a copy an outbox of its own." : "outbox.adopt() sends them.") +
            " To do it all the same: SET outbox.allow_loss = on."};
  }
  if (identity || command == "truncate") {
    NoteLoss(command + " " + name, "");  // of rows that go JudgeGone tells
  }
  return true;
}

// Lanes go with their route, or are changed by alter_route(): without them it delivers nothing, and no view has a row
// that would show it.
void RefuseLanes(const std::string& command) {
  if (!pg::settings.allow_loss) {
    throw UserError{
        ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot " + command + " outbox_internal.lane",
        "Without its lanes a route delivers nothing.",
        "outbox.drop_route() drops a route with its lanes, outbox.alter_route(route, lanes => n) changes their "
        "number. To do it all the same: SET outbox.allow_loss = on."};
  }
}

// Lanes without undelivered events that a statement deletes.
StatementNotes<int64> quiet;

void NoteQuietLane(const TriggerData* trigger) {
  ++*Guard([trigger] { return quiet.Begun(RelationGetRelid(trigger->tg_relation)); });
}

// When the statement has deleted all of its lanes.
void JudgeQuietLanes(const TriggerData* trigger) {
  const int64 rows = Guard([trigger] { return quiet.Take(RelationGetRelid(trigger->tg_relation)); });
  if (rows > 0) {
    RefuseLanes("delete from");
    NoteLoss("delete from outbox_internal.lane", "", rows);
  }
}

// A row of a state table goes by itself.
void JudgeRow(const TriggerData* trigger, const std::string& name) {
  const bool deletes = TRIGGER_FIRED_BY_DELETE(trigger->tg_event);
  if (GoesWithParent(trigger)) {
    return;
  }
  if (JudgeApart(name, deletes ? "delete from" : "update")) {
    if (name == "outbox_internal.foreign_event") {
      NoteGoing(trigger, false);
    }
    return;
  }
  if (pg::settings.allow_loss && name == "outbox_internal.parked") {
    NoteGoing(trigger, true);  // JudgeGone tells of it
    return;
  }
  const bool route = name == "outbox.route";
  if (route) {
    LockToWrite({"pause", "side_topic", "side_lane", "lane_start", "lane", "parked"});  // they go with it
  }
  const bool of_route = route || (name != "outbox_internal.adoption" && name != "outbox_internal.adopted");
  const int64 what = of_route ? NumberIn(trigger, route ? "id" : "route_id") : kEverything;
  if (WarnedOf(what)) {
    return;
  }
  Loss loss = FindLoss({.route_id = what, .routes_go = route || name == "outbox_internal.lane"});
  loss.dead = route ? loss.dead : 0;
  JudgeLoss(loss, "delete from " + name, true, kThereAre);
  if (loss.any) {
    NoteWarned(what);
  } else if (name == "outbox_internal.lane") {
    NoteQuietLane(trigger);  // another of the statement may have events waiting, which is to be said first
  }
}

// `whole`: of the log, or of what says what is undelivered.
void JudgeEmptied(const std::string& name, bool state, bool whole) {
  const bool routes = name == "outbox.route";
  const bool lanes = name == "outbox_internal.lane";
  Loss loss = state ? FindLoss({.routes_go = routes || lanes}) : FindLoss({.table = name.c_str()});
  loss.dead = routes || name == "outbox_internal.parked" ? loss.dead : 0;
  JudgeLoss(loss, "truncate " + name, true, state ? kThereAre : kHolds);
  if (lanes && !loss.any) {
    RefuseLanes("truncate");
    NoteLoss("truncate outbox_internal.lane", "");
  }
  if (whole && loss.any) {
    NoteWarned(kEverything);
  }
}

// Triggers of what goes with routes, or with the log, come after theirs (unless it is named before them), and all of
// them before any table is empty.
void JudgeTruncate(Oid table, const std::string& name, bool state, bool log) {
  if (JudgeApart(name, "truncate")) {
    return;
  }
  const bool goes_along = state ? Empties(Emptied::kRoutes)
                                : Empties(Emptied::kLog) && Guard([table] { return get_rel_relispartition(table); });
  if (!goes_along && !WarnedOf(kEverything)) {
    JudgeEmptied(name, state, state || log);
  }
  if (log || name == "outbox.route") {
    NoteEmpties(log ? Emptied::kLog : Emptied::kRoutes);
  }
}

// UPDATE or DELETE on the log, before it is known what it concerns.
void RefuseChange(const std::string& name, bool deletes) {
  if (pg::settings.allow_loss) {
    return;  // JudgeGone tells what went
  }
  const Loss loss = FindLoss({.table = name.c_str()});
  throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, (deletes ? "cannot delete from " : "cannot update ") + name,
                  "The log is append-only, and its days are dropped whole." +
                      (loss.any ? std::string(loss.uncounted == nullptr ? " It holds" : " It may hold") +
                                      " undelivered events. " + loss.text
                                : std::string()),
                  "outbox.retention says how long days are kept, outbox.seek() passes events over, outbox.forget() "
                  "erases what is kept of one key. To do it all the same: SET outbox.allow_loss = on."};
}

std::string TellGoing(const Going& gone) {
  std::string text;
  for (int i = 0; i < gone.routes; i++) {
    const std::vector<Row> name = RunSql(Access::kWrite, "SELECT name FROM outbox.route WHERE id = $1::bigint",
                                         {Cell(std::to_string(gone.of[i].id))});
    std::string parts;
    const std::pair<int64, const char*> states[] = {
        {gone.of[i].retrying, "retrying"}, {gone.of[i].blocked, "blocked"}, {gone.of[i].scheduled, "scheduled"}};
    for (const auto& [count, state] : states) {
      if (count > 0) {
        parts += (parts.empty() ? "" : ", ") + Counted(count, false, state);
      }
    }
    text += text.empty() ? "Route \"" : "; route \"";
    text += (name.empty() ? std::to_string(gone.of[i].id) : name[0][0].value()) + "\": " + parts;
  }
  return text.empty() ? CountText(gone.rows, "event that nobody has sent.", "events that nobody has sent.")
                      : text + ".";
}

// What a statement has removed or changed that outbox.allow_loss has let through.
void JudgeGone(TriggerData* trigger, const std::string& name, bool log) {
  const bool deletes = TRIGGER_FIRED_BY_DELETE(trigger->tg_event);
  int64 rows = 0;
  Loss loss;
  if (log) {
    rows = Guard([trigger] { return tuplestore_tuple_count(trigger->tg_oldtable); });
    if (rows > 0 && pg::settings.allow_loss) {
      loss = FindLoss({.gone = trigger});
    }
  } else if (const Going gone = Guard([trigger] { return going.Take(RelationGetRelid(trigger->tg_relation)); });
             gone.rows > 0) {
    rows = gone.rows;
    loss.any = true;
    loss.text = TellGoing(gone);
  }
  if (rows == 0 || !pg::settings.allow_loss) {
    return;
  }
  if (loss.any) {
    Warn(deletes ? "undelivered events are lost" : "undelivered events are changed by hand", loss.text);
  }
  NoteLoss((deletes ? "delete from " : "update ") + name, loss.text, rows);
}

// --- how it is called ---

constexpr const char* kFunction = "outbox_internal.refuse_loss()";

constexpr pg::TriggerUse kUse = {kFunction,
                                 [](const TriggerData& trigger) {
                                   return !TRIGGER_FIRED_INSTEAD(trigger.tg_event) &&
                                          !TRIGGER_FIRED_BY_INSERT(trigger.tg_event);
                                 },
                                 "a trigger of UPDATE, DELETE or TRUNCATE of a table"};

// Of the log it is told what has gone, ...
constexpr pg::TriggerUse kLogUse = {kFunction,
                                    [](const TriggerData& trigger) {
                                      return TRIGGER_FIRED_FOR_STATEMENT(trigger.tg_event) &&
                                             (TRIGGER_FIRED_BEFORE(trigger.tg_event) || trigger.tg_oldtable != nullptr);
                                    },
                                    "one FOR EACH STATEMENT, with the old rows if it comes after it"};

// ... of state each row that is going.
constexpr pg::TriggerUse kStateUse = {
    kFunction,
    [](const TriggerData& trigger) {
      const bool earlier = TRIGGER_FIRED_FOR_ROW(trigger.tg_event) || TRIGGER_FIRED_BY_TRUNCATE(trigger.tg_event);
      return earlier == (TRIGGER_FIRED_BEFORE(trigger.tg_event) != 0);
    },
    "a BEFORE trigger FOR EACH ROW or of TRUNCATE, or an AFTER trigger FOR EACH STATEMENT"};

}  // namespace

}  // namespace outbox::admin

using namespace outbox::admin;

OUTBOX_FUNCTION(outbox_refuse_loss) {
  TriggerData* trigger = outbox::pg::TriggerOf(fcinfo, kUse);
  const bool row = TRIGGER_FIRED_FOR_ROW(trigger->tg_event) != 0;
  const Datum result =
      !row ? Datum{0}
           : PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? trigger->tg_newtuple : trigger->tg_trigtuple);
  if (outbox::pg::InOwnStatement() || !StateTablesExist()) {
    return result;
  }
  const Oid table = RelationGetRelid(trigger->tg_relation);
  const std::string name = NameOf(table);
  const bool log = table == outbox::days::DayTableParent(outbox::days::DayTableKind::kLog);
  const bool day = IsDayTable(table);
  const bool state = !log && !day && outbox::pg::IsOurSchema(RelationGetNamespace(trigger->tg_relation)) &&
                     IsStateTable(RelationGetRelationName(trigger->tg_relation));
  if (!log && !day && !state) {
    return result;  // a day table that was detached is a user's own
  }
  outbox::pg::RequireUse(*trigger, state ? kStateUse : kLogUse);
  if (row) {
    JudgeRow(trigger, name);
  } else if (TRIGGER_FIRED_AFTER(trigger->tg_event) && name == "outbox_internal.lane") {
    JudgeQuietLanes(trigger);
  } else if (TRIGGER_FIRED_AFTER(trigger->tg_event)) {
    JudgeGone(trigger, name, log || day);
  } else if (TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event)) {
    JudgeTruncate(table, name, state, log);
  } else {
    RefuseChange(name, TRIGGER_FIRED_BY_DELETE(trigger->tg_event));
  }
  return result;
}
