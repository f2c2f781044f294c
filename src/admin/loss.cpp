#include "admin/loss.h"

#include <vector>

#include "admin/backlog.h"
#include "admin/lanes.h"
#include "admin/operation.h"
#include "admin/parked_counts.h"
#include "admin/query.h"
#include "days/day_table_ddl.h"
#include "pg/entry.h"
#include "pg/settings.h"
#include "pg/transaction.h"

extern "C" {
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_proc.h"
#include "commands/trigger.h"
#include "foreign/foreign.h"
}

namespace outbox::admin {

namespace {

using pg::Guard;
using pg::UserError;

// How many events are read for each route: a few milliseconds; if none of these is the route's, up to kLagScanLimit, a
// few tenths of a second.
constexpr int64 kFirstScan = 10000;
constexpr size_t kRoutesTold = 10;

object_access_hook_type previous_hook = nullptr;

// State of the DROP command that this session is running.
bool drops_tables = false;   // DROP TABLE: each day table answers for itself
bool whole_checked = false;  // the whole log has been checked

// What a command has been let do under outbox.allow_loss is told once, however many triggers and rows ask.
struct {
  LocalTransactionId transaction;
  CommandId command;
  int count;
  int64 what[10];  // routes; kEverything
} warned;
constexpr int64 kEverything = 0;

// The tables without which events are lost, or an answer cannot be made, beside the log's day tables.
constexpr const char* kStateTables[] = {"log",       "log_spare",  "route",    "lane",    "progress", "parked",
                                        "side_lane", "side_topic", "adoption", "adopted", "identity"};

struct Loss {
  bool any = false;
  int64 dead = 0;
  std::string text;
};

std::string Counted(int64 count, bool capped, const char* what) {
  return (capped ? "at least " : "") + std::to_string(count) + " " + what;
}

const char* DeadLetters(int64 count) {
  return count == 1 ? "dead letter" : "dead letters";
}

// What a route wants that cannot work is unknown: all that is behind its lanes counts.
bool AnyAfter(const std::vector<LaneRecord>& lanes, const char* table) {
  uint64 next = UINT64_MAX;
  for (const LaneRecord& lane : lanes) {
    next = Min(next, lane.position.base.xmin);
  }
  const std::string sql = std::string("SELECT FROM ") + table + " AS l WHERE xid >= $1::xid8 LIMIT 1";
  return !RunSql(Access::kRead, sql.c_str(), {Cell(std::to_string(next))}, Plan::kIndexOrder).empty();
}

void AddRoute(const std::vector<LaneRecord>& lanes, const char* table, const ParkedCount& parked, Loss* loss,
              size_t* told) {
  std::vector<std::string> parts;
  loss->dead += parked.dead;
  if (lanes[0].spec == nullptr) {
    if (AnyAfter(lanes, table)) {
      parts.push_back("events that cannot be counted, because " + lanes[0].trouble);
    }
  } else {
    int64 pending = 0;
    bool capped = false;
    for (int64 limit : {kFirstScan, kLagScanLimit}) {
      pending = 0;
      for (const LaneBacklog& backlog : CountBacklog(lanes, {.limit = limit, .table = table})) {
        pending += backlog.pending;
        capped = backlog.capped;
      }
      if (pending > 0 || !capped) {
        break;
      }
    }
    if (pending > 0) {
      parts.push_back(Counted(pending, capped, "pending"));
    } else if (capped) {
      parts.push_back("none pending among the first " + std::to_string(kLagScanLimit) + " events behind its lanes");
    }
  }
  const std::pair<int64, const char*> states[] = {
      {parked.retrying, "retrying"}, {parked.blocked, "blocked"}, {parked.scheduled, "scheduled"}};
  for (const auto& [count, state] : states) {
    if (count > 0) {
      parts.push_back(Counted(count, count >= kParkedCountLimit, state));
    }
  }
  if (parts.empty()) {
    return;
  }
  loss->any = true;
  if (parked.dead > 0) {
    parts.push_back(Counted(parked.dead, parked.dead >= kParkedCountLimit, DeadLetters(parked.dead)));
  }
  if (++*told > kRoutesTold) {
    return;
  }
  loss->text += loss->text.empty() ? "Route \"" : "; route \"";
  loss->text += lanes[0].route + "\": ";
  for (size_t i = 0; i < parts.size(); i++) {
    loss->text += (i > 0 ? ", " : "") + parts[i];
  }
}

// What is asked about: all, or of that only.
struct Question {
  const char* server = nullptr;  // routes to it
  int64 route_id = kEverything;
  const char* table = nullptr;  // a day table alone (what is parked has a copy of its own)
};

// Under a new snapshot: whoever asks holds the locks by now after which nothing is added.
Loss FindLoss(const Question& question) {
  Guard([] { PushActiveSnapshot(GetLatestSnapshot()); });
  Loss loss;
  size_t told = 0;
  std::map<std::pair<int64, int>, ParkedCount> parked;
  if (question.table == nullptr) {
    parked = CountParked(Access::kRead);
  }
  for (const std::vector<LaneRecord>& lanes : ByRoute(LoadLanes(std::nullopt))) {
    if ((question.server != nullptr && lanes[0].server != question.server) ||
        (question.route_id != kEverything && lanes[0].route_id != question.route_id)) {
      continue;
    }
    ParkedCount of_route;
    for (const LaneRecord& lane : lanes) {
      auto found = parked.find({lane.route_id, lane.lane});
      if (found != parked.end()) {
        of_route.Add(found->second);
      }
    }
    AddRoute(lanes, question.table != nullptr ? question.table : kWholeLog, of_route, &loss, &told);
  }
  if (told > kRoutesTold) {
    loss.text +=
        "; and " + std::to_string(told - kRoutesTold) + (told - kRoutesTold == 1 ? " more route" : " more routes");
  }
  loss.text += loss.text.empty() ? "" : ".";
  Guard([] { PopActiveSnapshot(); });
  return loss;
}

constexpr const char* kWayOut =
    "Wait until they are delivered, or give them up: outbox.seek(route, 'infinity'), outbox.skip(), "
    "outbox.drop_route(). To lose them all the same: SET outbox.allow_loss = on.";

constexpr const char* kHolds = "it holds undelivered events";
constexpr const char* kThereAre = "there are undelivered events";

LocalTransactionId CurrentTransaction() {
#if PG_VERSION_NUM >= 170000
  return MyProc->vxid.lxid;
#else
  return MyProc->lxid;
#endif
}

// By the command that is under way.
bool WarnedOf(int64 what) {
  if (warned.transaction != CurrentTransaction() || warned.command != GetCurrentCommandId(false)) {
    return false;
  }
  for (int i = 0; i < warned.count; i++) {
    if (warned.what[i] == what || warned.what[i] == kEverything) {
      return true;
    }
  }
  return warned.count == lengthof(warned.what);
}

void NoteWarned(int64 what) {
  if (warned.transaction != CurrentTransaction() || warned.command != GetCurrentCommandId(false)) {
    warned.transaction = CurrentTransaction();
    warned.command = GetCurrentCommandId(false);
    warned.count = 0;
  }
  if (warned.count < static_cast<int>(lengthof(warned.what))) {
    warned.what[warned.count++] = what;
  }
}

// `command`: "drop extension outbox".
// `keeps_audit`: outbox.audit does not go with it.
void Judge(const Loss& loss, const std::string& command, bool keeps_audit = true, const char* because = kHolds,
           const char* warning = "undelivered events are lost") {
  if (!loss.any) {
    if (loss.dead > 0) {
      Notice(std::to_string(loss.dead) + " " + DeadLetters(loss.dead) + (loss.dead == 1 ? " goes" : " go") +
             " with it");
    }
    return;
  }
  if (pg::settings.allow_loss) {
    Warn(warning, loss.text);
    if (keeps_audit) {
      NoteLoss(command, loss.text);
    }
    return;
  }
  throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot " + command + " because " + because, loss.text,
                  kWayOut};
}

bool IsStateTable(const char* name) {
  for (const char* table : kStateTables) {
    if (strcmp(name, table) == 0) {
      return true;
    }
  }
  return false;
}

// Whether the extension is there with all objects that the check needs.
bool Installed() {
  return Guard([] {
    Oid schema = get_namespace_oid("outbox", true);
    if (creating_extension || !OidIsValid(schema) || !OidIsValid(get_extension_oid("outbox", true))) {
      return false;
    }
    for (const char* table : kStateTables) {
      if (!OidIsValid(get_relname_relid(table, schema))) {
        return false;
      }
    }
    return true;
  });
}

// Whether the relation is a part of the log: a day table, or the spare one.
bool IsDayTable(Oid relation) {
  return Guard([relation] {
    return relation == days::SpareTable() ||
           (get_rel_relispartition(relation) &&
            get_partition_parent(relation, true) == days::DayTableParent(days::DayTableKind::kLog));
  });
}

void JudgeDayTable(Oid relation, const char* command) {
  const std::string name = NameOf(relation);
  Judge(FindLoss({.table = name.c_str()}), command + (" " + name));
}

void JudgeWhole(const std::string& command) {
  if (!whole_checked) {
    Judge(FindLoss({}), command, drops_tables);
    whole_checked = true;
  }
}

// Called before the first object goes that the check needs; all that goes with it is locked by now.
int BeforeDrop(Oid catalog, Oid object) {
  if (!Installed()) {
    return 0;
  }
  if (catalog == ForeignServerRelationId) {
    const char* server = Guard([object]() -> const char* {
      ForeignServer* found = GetForeignServerExtended(object, FSV_MISSING_OK);
      ForeignDataWrapper* wrapper = found == nullptr ? nullptr : GetForeignDataWrapper(found->fdwid);
      bool ours = wrapper != nullptr && strncmp(wrapper->fdwname, "outbox_", strlen("outbox_")) == 0;
      return ours ? found->servername : nullptr;
    });
    if (server != nullptr && !whole_checked) {
      Judge(FindLoss({.server = server}), std::string("drop server ") + server, true,
            "routes to it have undelivered events");
    }
    return 0;
  }
  if (!drops_tables) {
    JudgeWhole("drop extension outbox");
    return 0;
  }
  if (catalog != RelationRelationId) {
    return 0;
  }
  if (IsDayTable(object)) {
    JudgeDayTable(object, "drop table");
    return 0;
  }
  if (IsStateTable(Guard([object]() -> const char* { return get_rel_name(object); }))) {
    JudgeWhole("drop table " + NameOf(object));
  }
  return 0;
}

// Plain. Most objects do not belong to outbox, which one look-up finds out.
bool Concerns(Oid catalog, Oid object, int column) {
  if (catalog == ForeignServerRelationId) {
    return true;
  }
  if (catalog == ExtensionRelationId) {
    return object == get_extension_oid("outbox", true);
  }
  // Views and functions are asked for the answer as well, and what was made last is dropped first.
  Oid schema = InvalidOid;
  if (catalog == RelationRelationId && column == 0) {
    schema = get_rel_namespace(object);
  } else if (catalog == ProcedureRelationId) {
    schema = get_func_namespace(object);
  }
  if (!OidIsValid(schema) || schema != get_namespace_oid("outbox", true)) {
    return false;
  }
  char kind = catalog == RelationRelationId ? get_rel_relkind(object) : '\0';
  return kind == RELKIND_RELATION || kind == RELKIND_PARTITIONED_TABLE ||
         getExtensionOfObject(catalog, object) == get_extension_oid("outbox", true);
}

// Plain: the next hook may raise.
void OnAccess(ObjectAccessType access, Oid catalog, Oid object, int column, void* argument) {
  if (previous_hook != nullptr) {
    previous_hook(access, catalog, object, column, argument);
  }
  if (access != OAT_DROP || days::DroppingDayTable() || !IsUnderPostmaster ||
      (static_cast<ObjectAccessDrop*>(argument)->dropflags & PERFORM_DELETION_INTERNAL) != 0 ||
      !Concerns(catalog, object, column)) {
    return;
  }
  pg::Entry(&BeforeDrop, catalog, object);
}

// The number in a column of a row that is being deleted.
int64 NumberIn(const TriggerData* trigger, const char* column) {
  return Guard([&] {
    bool null = true;
    TupleDesc desc = RelationGetDescr(trigger->tg_relation);
    Datum value = heap_getattr(trigger->tg_trigtuple, SPI_fnumber(desc, column), desc, &null);
    return null ? kEverything : DatumGetInt64(value);
  });
}

// A row of a state table goes, other than by a cascade: then the row that it hangs on has been asked about.
void JudgeRow(const TriggerData* trigger, const std::string& name) {
  if (Guard([] { return InNoForceRLSOperation(); })) {
    return;
  }
  const bool route = name == "outbox.route";
  const bool of_route = route || (name != "outbox.adoption" && name != "outbox.adopted");
  const int64 what = of_route ? NumberIn(trigger, route ? "id" : "route_id") : kEverything;
  if (WarnedOf(what)) {
    return;
  }
  Loss loss = FindLoss({.route_id = what});
  loss.dead = route ? loss.dead : 0;
  Judge(loss, "delete from " + name, true, kThereAre);
  if (loss.any) {
    NoteWarned(what);
  }
}

// `parent`: the log's, whose day tables are emptied with it.
void JudgeTruncate(const std::string& name, bool state, bool parent) {
  if (WarnedOf(kEverything)) {
    return;
  }
  const Loss loss = state ? FindLoss({}) : FindLoss({.table = name.c_str()});
  Judge(loss, "truncate " + name, true, state ? kThereAre : kHolds);
  if (loss.any && (state || parent)) {
    NoteWarned(kEverything);
  }
}

void JudgeChange(const std::string& name, bool deletes) {
  const Loss loss = FindLoss({.table = name.c_str()});
  if (pg::settings.allow_loss) {
    NoteLoss((deletes ? "delete from " : "update ") + name, loss.text);
    if (loss.any) {
      Warn("the log is changed by hand while it holds undelivered events", loss.text);
    }
    return;
  }
  throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, (deletes ? "cannot delete from " : "cannot update ") + name,
                  "The log is append-only, and its days are dropped whole." +
                      (loss.any ? " It holds undelivered events. " + loss.text : std::string()),
                  "outbox.retention says how long days are kept, outbox.seek() passes events over, outbox.forget() "
                  "erases what is kept of one key. To do it all the same: SET outbox.allow_loss = on."};
}

}  // namespace

std::string NameOf(Oid relation) {
  const char* name = Guard([relation]() -> const char* {
    char* schema = get_namespace_name(get_rel_namespace(relation));
    char* table = get_rel_name(relation);
    return quote_qualified_identifier(schema, table);
  });
  return name;
}

void Warn(const std::string& message, const std::string& detail) {
  const char* text = message.c_str();
  const char* more = detail.c_str();
  Guard([&] { ereport(WARNING, (errmsg("%s", text), errdetail("%s", more))); });
}

// Who let what go, kept where that is not what goes.
void NoteLoss(const std::string& command, const std::string& what) {
  WriteAudit("allow_loss", Cell(), Cell(),
             JsonObject().Add("command", Cell(command)).Add("lost", what.empty() ? Cell() : Cell(what)), Cell());
}

void NoteCommand(Node* statement) {
  drops_tables = IsA(statement, DropStmt) && reinterpret_cast<DropStmt*>(statement)->removeType == OBJECT_TABLE;
  whole_checked = false;
}

void CheckExtensionContents(Node* statement) {
  const auto* alter = reinterpret_cast<AlterExtensionContentsStmt*>(statement);
  if (alter->action < 0 && strcmp(alter->extname, "outbox") == 0 && Installed()) {
    JudgeGuards("take anything out of extension outbox");
  }
}

void JudgeDetach(Oid table) {
  if (Installed() && IsDayTable(table)) {
    JudgeDayTable(table, "detach");
  }
}

void JudgeGuards(const std::string& command) {
  if (Installed()) {
    Judge(FindLoss({}), command, true, kThereAre, "undelivered events have lost a guard");
  }
}

std::string UndeliveredTo(const char* server) {
  return FindLoss({.server = server}).text;
}

void InstallDropHook() {
  previous_hook = object_access_hook;
  object_access_hook = OnAccess;
}

}  // namespace outbox::admin

using namespace outbox::admin;

OUTBOX_FUNCTION(outbox_refuse_loss) {
  if (!CALLED_AS_TRIGGER(fcinfo)) {
    throw UserError{ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED, "outbox._refuse_loss() was not called by a trigger", "",
                    ""};
  }
  const auto* trigger = reinterpret_cast<TriggerData*>(fcinfo->context);
  const Datum result =
      TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ? PointerGetDatum(trigger->tg_trigtuple) : PointerGetDatum(nullptr);
  if (outbox::pg::InOwnStatement() || !Installed()) {
    return result;
  }
  const Oid table = RelationGetRelid(trigger->tg_relation);
  const std::string name = NameOf(table);
  const bool log = table == outbox::days::DayTableParent(outbox::days::DayTableKind::kLog);
  const bool day = IsDayTable(table);
  const bool state = !log && !day && name == std::string("outbox.") + RelationGetRelationName(trigger->tg_relation) &&
                     IsStateTable(RelationGetRelationName(trigger->tg_relation));
  if (!log && !day && !state) {
    return result;  // a day table that was detached is somebody's own
  }
  if (TRIGGER_FIRED_FOR_ROW(trigger->tg_event)) {
    JudgeRow(trigger, name);
  } else if (TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event)) {
    JudgeTruncate(name, state, log);
  } else {
    JudgeChange(name, TRIGGER_FIRED_BY_DELETE(trigger->tg_event));
  }
  return result;
}
