#include "admin/guard/loss.h"

#include <vector>

#include "admin/common/operation.h"
#include "admin/common/query.h"
#include "admin/common/route_audit.h"
#include "admin/guard/server_commands.h"
#include "admin/lookup/backlog.h"
#include "admin/lookup/open_emitters.h"
#include "admin/lookup/parked_counts.h"
#include "admin/lookup/route_lanes.h"
#include "days/day_table_ddl.h"
#include "pg/entry.h"
#include "pg/settings.h"
#include "pg/transaction.h"
#include "pg/transaction_end.h"

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
#include "commands/user.h"
#include "foreign/foreign.h"
#include "replication/logicalworker.h"
#include "utils/fmgroids.h"
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
bool drops_owned = false;    // DROP OWNED, and the extension stays

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
                                        "side_lane", "side_topic", "adoption", "adopted", "identity", "foreign_event"};

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

// What is asked about: all, or of that only.
struct Question {
  const char* server = nullptr;  // routes to it
  int64 route_id = kEverything;
  const char* table = nullptr;  // a day table alone (what is parked has a copy of its own)
  TriggerData* gone = nullptr;  // what the trigger's statement has removed from the log
  bool routes_go = false;       // what commits from now on is lost as well
};

void AddRoute(const std::vector<LaneRecord>& lanes, const Question& question, const ParkedCount& parked, Loss* loss,
              size_t* told) {
  const char* table = question.gone != nullptr    ? question.gone->tg_trigger->tgoldtable
                      : question.table != nullptr ? question.table
                                                  : kWholeLog;
  std::vector<std::string> parts;
  loss->dead += parked.dead;
  if (lanes[0].spec == nullptr) {
    if (question.gone != nullptr || AnyAfter(lanes, table)) {
      parts.push_back("events that cannot be counted, because " + lanes[0].trouble);
    }
  } else {
    int64 pending = 0;
    bool capped = false;
    for (int64 limit : {kFirstScan, kLagScanLimit}) {
      pending = 0;
      for (const LaneBacklog& backlog :
           CountBacklog(lanes, {.limit = limit, .table = table, .own = true, .removed_by = question.gone})) {
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

// Under a new snapshot: whoever asks holds the locks by now after which nothing is added.
Loss FindLoss(const Question& question) {
  Guard([] { PushActiveSnapshot(GetLatestSnapshot()); });
  Loss loss;
  size_t told = 0;
  std::map<std::pair<int64, int>, ParkedCount> parked;
  if (question.table == nullptr && question.gone == nullptr) {
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
    AddRoute(lanes, question, of_route, &loss, &told);
  }
  if (told > kRoutesTold) {
    loss.text +=
        "; and " + std::to_string(told - kRoutesTold) + (told - kRoutesTold == 1 ? " more route" : " more routes");
  }
  loss.text += loss.text.empty() ? "" : ".";
  const int64 open = question.routes_go ? OpenEmitters() : 0;
  if (open > 0) {
    loss.any = true;
    loss.text += (loss.text.empty() ? "" : " ") + TellOpenEmitters(open) + ".";
  }
  Guard([] { PopActiveSnapshot(); });
  return loss;
}

constexpr const char* kWayOut =
    "Wait until they are delivered, or give them up: outbox.seek(route, 'infinity'), outbox.skip(), "
    "outbox.drop_route(). To lose them all the same: SET outbox.allow_loss = on.";

constexpr const char* kHolds = "it holds undelivered events";
constexpr const char* kThereAre = "there are undelivered events";

// Whether the command that is being executed has warned of that already.
bool WarnedOf(int64 what) {
  if (warned.transaction != pg::CurrentTransaction() || warned.command != GetCurrentCommandId(false)) {
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
  if (warned.transaction != pg::CurrentTransaction() || warned.command != GetCurrentCommandId(false)) {
    warned.transaction = pg::CurrentTransaction();
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
  return HasTables(kStateTables);
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
      if (drops_owned && !pg::settings.allow_loss) {
        RefuseServerInUse(server);
      }
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

// One of these roles owns the tables of outbox, so that they go as well. Plain.
bool OwnsExtension(List* roles) {
  HeapTuple tuple =
      SearchSysCache1(RELOID, ObjectIdGetDatum(get_relname_relid("log", get_namespace_oid("outbox", true))));
  if (!HeapTupleIsValid(tuple)) {
    return false;
  }
  const Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->relowner;
  ReleaseSysCache(tuple);
  return list_member_oid(roleSpecsToIds(roles), owner);
}

// As a literal of the table's type.
std::string RowText(HeapTuple row, TupleDesc columns) {
  return Guard([row, columns]() -> const char* {
    return OidOutputFunctionCall(F_RECORD_OUT, heap_copy_tuple_as_datum(row, columns));
  });
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

// Rows that the statement under way deletes from outbox.parked or outbox.foreign_event while outbox.allow_loss is on.
// (Counted one by one: a transition table would be filled for workers, too.)
struct {
  LocalTransactionId transaction;
  SubTransactionId subtransaction;  // an error may have left something
  int64 rows;
  int routes;
  struct {
    int64 id;
    int64 retrying, blocked, scheduled;
  } of[kRoutesTold];  // of outbox.parked
} going;

void NoteGoing(const TriggerData* trigger, bool parked) {
  const SubTransactionId here = Guard([] { return GetCurrentSubTransactionId(); });
  if (going.transaction != pg::CurrentTransaction() || going.subtransaction != here) {
    going = {};
    going.transaction = pg::CurrentTransaction();
    going.subtransaction = here;
  }
  going.rows++;
  if (!parked) {
    return;
  }
  const int64 id = NumberIn(trigger, "route_id");
  int i = 0;
  while (i < going.routes && going.of[i].id != id) {
    i++;
  }
  if (i == static_cast<int>(kRoutesTold)) {
    return;
  }
  if (i == going.routes) {
    going.of[going.routes++].id = id;
  }
  const std::string state = Guard([trigger]() -> const char* {
    TupleDesc desc = RelationGetDescr(trigger->tg_relation);
    return SPI_getvalue(trigger->tg_trigtuple, desc, SPI_fnumber(desc, "state"));
  });
  (state == "retrying" ? going.of[i].retrying : state == "blocked" ? going.of[i].blocked : going.of[i].scheduled)++;
}

// What says whose the outbox is, and events that nobody has sent: not told by what is behind the lanes. Returns false
// for other tables.
bool JudgeApart(const std::string& name, const std::string& command) {
  const bool identity = name == "outbox.identity";
  if (!identity && name != "outbox.foreign_event") {
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
  if (identity) {
    NoteLoss(command + " " + name, "");
  }
  return true;
}

// Lanes go with their route, or are changed by alter_route(): without them it delivers nothing, and no view has a row
// that would show it.
void RefuseLanes(const std::string& command) {
  if (!pg::settings.allow_loss) {
    throw UserError{
        ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot " + command + " outbox.lane",
        "Without its lanes a route delivers nothing.",
        "outbox.drop_route() drops a route with its lanes, outbox.alter_route(route, lanes => n) changes their "
        "number. To do it all the same: SET outbox.allow_loss = on."};
  }
}

// Lanes without undelivered events that the statement under way deletes.
struct {
  LocalTransactionId transaction;
  SubTransactionId subtransaction;  // an error may have left something
  int64 rows;
} quiet;

void NoteQuietLane() {
  const SubTransactionId here = Guard([] { return GetCurrentSubTransactionId(); });
  if (quiet.transaction != pg::CurrentTransaction() || quiet.subtransaction != here) {
    quiet = {pg::CurrentTransaction(), here, 0};
  }
  quiet.rows++;
}

// When the statement has deleted all of its lanes.
void JudgeQuietLanes() {
  const int64 rows = quiet.transaction == pg::CurrentTransaction() ? quiet.rows : 0;
  quiet = {};
  if (rows > 0) {
    RefuseLanes("delete from");
    NoteLoss("delete from outbox.lane", "", rows);
  }
}

// A row of a state table goes, other than by a cascade: then the row that it hangs on has been asked about.
void JudgeRow(const TriggerData* trigger, const std::string& name) {
  const bool deletes = TRIGGER_FIRED_BY_DELETE(trigger->tg_event);
  if (Guard([] { return InNoForceRLSOperation(); })) {
    return;
  }
  if (JudgeApart(name, deletes ? "delete from" : "update")) {
    if (name == "outbox.foreign_event") {
      NoteGoing(trigger, false);
    }
    return;
  }
  if (pg::settings.allow_loss && name == "outbox.parked") {
    NoteGoing(trigger, true);  // JudgeGone tells of it
    return;
  }
  const bool route = name == "outbox.route";
  const bool of_route = route || (name != "outbox.adoption" && name != "outbox.adopted");
  const int64 what = of_route ? NumberIn(trigger, route ? "id" : "route_id") : kEverything;
  if (WarnedOf(what)) {
    return;
  }
  Loss loss = FindLoss({.route_id = what, .routes_go = route || name == "outbox.lane"});
  loss.dead = route ? loss.dead : 0;
  Judge(loss, "delete from " + name, true, kThereAre);
  if (loss.any) {
    NoteWarned(what);
  } else if (name == "outbox.lane") {
    NoteQuietLane();  // another of the statement may have events waiting, which is to be said first
  }
}

// `parent`: the log's, whose day tables are emptied with it.
void JudgeTruncate(const std::string& name, bool state, bool parent) {
  if (WarnedOf(kEverything) || JudgeApart(name, "truncate")) {
    return;
  }
  const Loss loss = state ? FindLoss({.routes_go = name == "outbox.route" || name == "outbox.lane"})
                          : FindLoss({.table = name.c_str()});
  Judge(loss, "truncate " + name, true, state ? kThereAre : kHolds);
  if (name == "outbox.lane" && !loss.any) {  // and not with its routes: then it would have been asked about before
    RefuseLanes("truncate");
    NoteLoss("truncate outbox.lane", "");
  }
  if (state || parent) {
    NoteWarned(kEverything);
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
                      (loss.any ? " It holds undelivered events. " + loss.text : std::string()),
                  "outbox.retention says how long days are kept, outbox.seek() passes events over, outbox.forget() "
                  "erases what is kept of one key. To do it all the same: SET outbox.allow_loss = on."};
}

std::string TellGoing() {
  std::string text;
  for (int i = 0; i < going.routes; i++) {
    const std::vector<Row> name = RunSql(Access::kWrite, "SELECT name FROM outbox.route WHERE id = $1::bigint",
                                         {Cell(std::to_string(going.of[i].id))});
    std::string parts;
    const std::pair<int64, const char*> states[] = {
        {going.of[i].retrying, "retrying"}, {going.of[i].blocked, "blocked"}, {going.of[i].scheduled, "scheduled"}};
    for (const auto& [count, state] : states) {
      if (count > 0) {
        parts += (parts.empty() ? "" : ", ") + Counted(count, false, state);
      }
    }
    text += text.empty() ? "Route \"" : "; route \"";
    text += (name.empty() ? std::to_string(going.of[i].id) : name[0][0].value()) + "\": " + parts;
  }
  return text.empty() ? Counted(going.rows, false,
                                going.rows == 1 ? "event that nobody has sent." : "events that nobody has sent.")
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
  } else if (going.transaction == pg::CurrentTransaction() && going.rows > 0) {
    rows = going.rows;
    loss.any = true;
    loss.text = TellGoing();
    going = {};
  }
  if (rows == 0 || !pg::settings.allow_loss) {
    return;
  }
  if (loss.any) {
    Warn(deletes ? "undelivered events are lost" : "undelivered events are changed by hand", loss.text);
  }
  NoteLoss((deletes ? "delete from " : "update ") + name, loss.text, rows);
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
void NoteLoss(const std::string& command, const std::string& what, int64 rows) {
  JsonObject detail;
  detail.Add("command", Cell(command)).Add("lost", what.empty() ? Cell() : Cell(what));
  if (rows > 0) {
    detail.Add("rows", rows);
  }
  WriteAudit("allow_loss", Cell(), Cell(), detail, Cell());
}

void NoteCommand(Node* statement) {
  drops_tables = IsA(statement, DropStmt) && reinterpret_cast<DropStmt*>(statement)->removeType == OBJECT_TABLE;
  whole_checked = false;
  drops_owned = IsA(statement, DropOwnedStmt) && !OwnsExtension(reinterpret_cast<DropOwnedStmt*>(statement)->roles);
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
  auto* trigger = reinterpret_cast<TriggerData*>(fcinfo->context);
  const bool row = TRIGGER_FIRED_FOR_ROW(trigger->tg_event) != 0;
  const Datum result =
      !row ? PointerGetDatum(nullptr)
           : PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? trigger->tg_newtuple : trigger->tg_trigtuple);
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
  if (row) {
    JudgeRow(trigger, name);
  } else if (TRIGGER_FIRED_AFTER(trigger->tg_event) && name == "outbox.lane") {
    JudgeQuietLanes();
  } else if (TRIGGER_FIRED_AFTER(trigger->tg_event)) {
    JudgeGone(trigger, name, log || day);
  } else if (TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event)) {
    JudgeTruncate(name, state, log);
  } else {
    RefuseChange(name, TRIGGER_FIRED_BY_DELETE(trigger->tg_event));
  }
  return result;
}

// After a row of outbox.route was changed by hand, before it is truncated.
OUTBOX_FUNCTION(outbox_note_route) {
  if (!CALLED_AS_TRIGGER(fcinfo)) {
    throw UserError{ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED, "outbox._note_route() was not called by a trigger", "",
                    ""};
  }
  const auto* trigger = reinterpret_cast<TriggerData*>(fcinfo->context);
  if (outbox::pg::InOwnStatement() || !Installed()) {
    return PointerGetDatum(nullptr);
  }
  if (TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event)) {
    const bool warned_of = WarnedOf(kEverything);
    for (const Row& route : RunSql(Access::kWrite, "SELECT r::text FROM outbox.route r ORDER BY r.name")) {
      AuditRouteByHand(route[0].value(), Cell(), "TRUNCATE");
    }
    if (warned_of) {
      NoteWarned(kEverything);  // the rows above were commands of their own
    }
  } else {
    const TupleDesc columns = RelationGetDescr(trigger->tg_relation);
    const bool deletes = TRIGGER_FIRED_BY_DELETE(trigger->tg_event);
    const std::string from = RowText(trigger->tg_trigtuple, columns);
    AuditRouteByHand(from, deletes ? Cell() : Cell(RowText(trigger->tg_newtuple, columns)),
                     deletes ? "DELETE" : "UPDATE");
  }
  outbox::pg::NoteConfigChange();
  return PointerGetDatum(nullptr);
}
