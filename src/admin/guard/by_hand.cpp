#include "admin/guard/by_hand.h"

#include <string>

#include "admin/common/query.h"
#include "admin/guard/cascade.h"
#include "admin/guard/loss.h"
#include "admin/guard/statement_notes.h"
#include "admin/guard/this_statement.h"
#include "base/count_text.h"
#include "pg/entry.h"
#include "pg/schemas.h"
#include "pg/settings.h"
#include "pg/transaction.h"
#include "pg/transaction_end.h"

extern "C" {
#include "commands/trigger.h"
#include "executor/spi.h"
#include "replication/logicalworker.h"
}

namespace outbox::admin {

namespace {

using pg::Guard;
using pg::UserError;

struct Rule {
  const char* table;
  const char* what;  // its rows are
  const char* way;   // what to do instead
};

constexpr const char* kPosition =
    "It says how far lanes have come: what a change passes over is never sent, what it takes back is sent again.";
constexpr const char* kOtherPosition =
    "outbox.seek() has a route go on from another position, outbox.alter_route(route, lanes => n) changes the number "
    "of its lanes.";

constexpr const char* kOfADump = " A dump is restored into a new database.";

// Of the tables that schema/27_loss.sql has these triggers on: scripts/check-guards compares.
constexpr Rule kRules[] = {
    {"parked", "A row of it is an event that waits: what it holds, whose turn it is, and when.",
     "outbox.retry() tries one now, edited if need be, and CALL outbox.redrive() many; outbox.skip() and "
     "outbox.discard() give up, CALL outbox.forget() erases."},
    {"foreign_event", "A row of it is an event that came by another way than emit(), as it came.",
     "outbox.adopt() sends them, CALL outbox.forget() erases those of one key."},
    {"route", "It says which keys go to which lane, and where the route began.",
     "outbox.create_route() makes one, outbox.seek() has it go on from another position, outbox.alter_route(route, "
     "lanes => n) changes the number of its lanes."},
    {"lane", kPosition, kOtherPosition},
    {"side_lane", kPosition, kOtherPosition},
    {"side_topic", kPosition,
     "A topic comes back to its lane by itself; outbox.resume() has one go on that is paused."},
    {"progress", kPosition, kOtherPosition},
    {"tick", kPosition, kOtherPosition},
    {"lane_start", "It says where lanes stood before: what a Redis has lost of that time is found by it.",
     kOtherPosition},
    {"adoption", "It says how far outbox.adopt() has come.", "outbox.adopt() goes on where it was."},
    {"adopted", "It says who has still to get the events of a restored dump.", "outbox.adopt() writes it."},
    {"outcome", "It says what became of parked events: what people have given up is not sent again.",
     "CALL outbox.replay(..., include_given_up => true) sends what was given up. Its days go with those of the log."},
    {"server_run", "It says what each life of a Redis still had: without it what that has lost is not sent again.",
     "Nothing has to be done: rows that nothing depends on any more go by themselves after 90 days."},
    {"met_cluster", "It says which cluster each destination is: without it nobody is told of another in its place.",
     "Nothing has to be done: rows of servers that were dropped go by themselves."},
    {"origin", "It says of which server the transaction ids are that the log and the positions of lanes hold.",
     "outbox.adopt() makes a copy of a database one of its own."},
    {"key_secret", "It is what parked events know their keys by: under another nothing would wait for them.",
     "Nothing has to be done: it belongs to this installation, and adopt() hashes anew what a dump brings."},
    {"audit", "A row of it says what somebody did, and when.",
     "What is to be added is a row of its own; rows that nobody needs any more may be deleted."},
    {"pause", "Keys and topics that it holds up are let go, and audited, by functions.",
     "outbox.pause() and outbox.resume()."},
};

// Plain.
const Rule* FindRule(const char* table) {
  for (const Rule& rule : kRules) {
    if (strcmp(rule.table, table) == 0) {
      return &rule;
    }
  }
  return nullptr;
}

// Plain.
Oid NamedTable(const TriggerData* trigger) {
  return WholeOf(RelationGetRelid(trigger->tg_relation));
}

// nullptr: the trigger's table is not one of outbox. Plain.
const Rule* RuleOf(const TriggerData* trigger) {
  const Oid table = NamedTable(trigger);
  const char* name = OidIsValid(table) ? get_rel_name(table) : nullptr;
  const char* schema = OidIsValid(table) ? get_namespace_name(get_rel_namespace(table)) : nullptr;
  return name != nullptr && pg::IsOurSchema(schema) ? FindRule(name) : nullptr;
}

const char* Verb(const TriggerData* trigger) {
  return TRIGGER_FIRED_BY_INSERT(trigger->tg_event)   ? "insert into"
         : TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? "update"
         : TRIGGER_FIRED_BY_DELETE(trigger->tg_event) ? "delete from"
                                                      : "truncate";
}

// A statement that outbox.allow_loss lets do something, from its BEFORE trigger to its AFTER trigger.
struct Doing {
  int64 rows;
  int64 waiting;  // of these, events that are neither delivered nor dead
};
StatementNotes<Doing> doing;

void CountRow(const TriggerData* trigger, const std::string& command) {
  const bool counted = Guard([trigger] {
    const Oid table = NamedTable(trigger);
    Doing* here = doing.Current(table);
    if (here == nullptr) {
      return false;  // it names a partition, which has no triggers of statements
    }
    TupleDesc columns = RelationGetDescr(trigger->tg_relation);
    const int state = table == RelationGetRelid(trigger->tg_relation) ? SPI_fnumber(columns, "state") : 0;
    const char* text = state > 0 ? SPI_getvalue(trigger->tg_trigtuple, columns, state) : nullptr;
    here->rows++;
    here->waiting += text != nullptr && strcmp(text, "dead") != 0;
    return true;
  });
  if (!counted) {
    NoteLoss(command, "", 1);
  }
}

void Tell(const TriggerData* trigger, const std::string& command) {
  Doing done = {};
  Guard([trigger, &done] { done = doing.Take(NamedTable(trigger)); });
  if (done.rows == 0) {
    return;
  }
  std::string waiting;
  if (done.waiting > 0) {
    waiting = CountText(done.waiting, "event that waits.", "events that wait.");
    Warn("undelivered events are changed by hand", waiting);
  }
  NoteLoss(command, waiting, done.rows);
}

// These go with their routes, which were asked about.
bool GoesWithRoutes(const TriggerData* trigger, const Rule& rule) {
  return TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event) && Empties(Emptied::kRoutes) &&
         (strcmp(rule.table, "pause") == 0 || strcmp(rule.table, "lane_start") == 0);
}

void Judge(TriggerData* trigger, const Rule& rule) {
  const std::string command = Verb(trigger) + (" " + NameOf(RelationGetRelid(trigger->tg_relation)));
  const bool row = TRIGGER_FIRED_FOR_ROW(trigger->tg_event) != 0;
  const bool inserts = TRIGGER_FIRED_BY_INSERT(trigger->tg_event) != 0;
  if (inserts && (IsLogicalWorker() || !IsSettledHere())) {
    return;  // what a subscription copies, whose rows another trigger drops; a restore
  }
  if (TRIGGER_FIRED_AFTER(trigger->tg_event)) {
    row ? CountRow(trigger, command) : Tell(trigger, command);
  } else if (GoesWithRoutes(trigger, rule)) {
    pg::NoteConfigChange();  // it is told of the routes
  } else if (!pg::settings.allow_loss) {
    const std::string way = rule.way + std::string(inserts ? kOfADump : "");
    throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot " + command + " by hand", rule.what,
                    way + " To do it all the same, and answer for it: SET outbox.allow_loss = on."};
  } else if (row) {
    CountRow(trigger, command);
  } else if (TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event)) {
    NoteLoss(command, "");
    pg::NoteConfigChange();  // lanes that were paused go on
  } else {
    Guard([trigger] { (void)doing.Begin(NamedTable(trigger)); });
    if (strcmp(rule.table, "parked") == 0) {
      pg::NoteParkedChange();  // before any row is locked; lanes read anew which keys wait
    }
  }
}

}  // namespace

bool OnlyOutboxWrites(const char* table) {
  return FindRule(table) != nullptr;
}

bool IsSettledHere() {
  return !RunSql(Access::kWrite,
                 "SELECT FROM outbox_internal.identity WHERE system_identifier::text || '/' || database::text = "
                 "outbox_internal.home()")
              .empty();
}

}  // namespace outbox::admin

using namespace outbox::admin;

OUTBOX_FUNCTION(outbox_refuse_change) {
  constexpr const char* kNeeded[] = {"audit", "identity", "route"};
  static constexpr outbox::pg::TriggerUse kUse = {
      "outbox_internal.refuse_change()",
      [](const TriggerData& trigger) { return !TRIGGER_FIRED_INSTEAD(trigger.tg_event); }, "a trigger of a table"};
  TriggerData* trigger = outbox::pg::TriggerOf(fcinfo, kUse);
  const Datum result =
      TRIGGER_FIRED_FOR_STATEMENT(trigger->tg_event)
          ? Datum{0}
          : PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? trigger->tg_newtuple : trigger->tg_trigtuple);
  if (outbox::pg::InOwnStatement() || GoesWithParent(trigger) || !HasTables(kNeeded)) {
    return result;
  }
  const Rule* rule = Guard([trigger] { return RuleOf(trigger); });
  if (rule != nullptr) {
    Judge(trigger, *rule);
  }
  return result;
}
