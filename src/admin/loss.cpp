#include "admin/loss.h"

#include <vector>

#include "admin/act.h"
#include "admin/backlog.h"
#include "admin/lanes.h"
#include "admin/parked_counts.h"
#include "admin/query.h"
#include "days/day_table_ddl.h"
#include "pg/entry.h"
#include "pg/settings.h"

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
#include "storage/lmgr.h"
}

namespace outbox::admin {

namespace {

using pg::Guard;
using pg::UserError;

// How many events are read for each route: a few milliseconds; if none of these is the route's, up to kLagScanLimit, a
// few tenths of a second.
constexpr int64 kFirstLook = 10000;
constexpr size_t kRoutesTold = 10;

object_access_hook_type previous_hook = nullptr;

// State of the DROP command that this session is running.
bool drops_tables = false;   // DROP TABLE: each day table answers for itself
bool whole_checked = false;  // the whole log has been checked

bool moving_rows = false;

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
    for (int64 limit : {kFirstLook, kLagScanLimit}) {
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

// `server`: of routes to it; nullptr: of all. `table`: nullptr: of the whole log and of what is parked; else of that
// day table alone (what is parked has a copy of its own). Under a new snapshot: the caller holds the locks that keep
// more from being added.
Loss Look(const char* server, const char* table) {
  Guard([] { PushActiveSnapshot(GetLatestSnapshot()); });
  Loss loss;
  size_t told = 0;
  std::map<std::pair<int64, int>, ParkedCount> parked;
  if (table == nullptr) {
    parked = CountParked(Access::kRead);
  }
  for (const std::vector<LaneRecord>& lanes : ByRoute(LoadLanes(std::nullopt))) {
    if (server != nullptr && lanes[0].server != server) {
      continue;
    }
    ParkedCount of_route;
    for (const LaneRecord& lane : lanes) {
      auto found = parked.find({lane.route_id, lane.lane});
      if (found != parked.end()) {
        of_route.Add(found->second);
      }
    }
    AddRoute(lanes, table != nullptr ? table : kWholeLog, of_route, &loss, &told);
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

// `command`: "drop extension outbox".
// `keeps_audit`: outbox.audit does not go with it.
void Judge(const Loss& loss, const std::string& command, bool keeps_audit = true,
           const char* because = "it holds undelivered events") {
  if (!loss.any) {
    if (loss.dead > 0) {
      Notice(std::to_string(loss.dead) + " " + DeadLetters(loss.dead) + (loss.dead == 1 ? " goes" : " go") +
             " with it");
    }
    return;
  }
  if (pg::settings.allow_loss) {
    Warn("undelivered events are lost", loss.text);
    if (keeps_audit) {
      NoteLoss(command, loss.text);
    }
    return;
  }
  throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot " + command + " because " + because, loss.text,
                  kWayOut};
}

std::string NameOf(Oid relation) {
  const char* name = Guard([relation]() -> const char* {
    char* schema = get_namespace_name(get_rel_namespace(relation));
    char* table = get_rel_name(relation);
    return quote_qualified_identifier(schema, table);
  });
  return name;
}

// Whether the extension is there with all objects that the check needs.
bool Installed() {
  return Guard([] {
    Oid schema = get_namespace_oid("outbox", true);
    if (creating_extension || !OidIsValid(schema) || !OidIsValid(get_extension_oid("outbox", true))) {
      return false;
    }
    for (const char* table : {"route", "lane", "log", "log_spare", "progress", "parked", "side_lane", "side_topic"}) {
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
  Judge(Look(nullptr, name.c_str()), command + (" " + name));
}

void JudgeWhole(const std::string& command) {
  if (!whole_checked) {
    Judge(Look(nullptr, nullptr), command, drops_tables);
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
      Judge(Look(server, nullptr), std::string("drop server ") + server, true, "routes to it have undelivered events");
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
  const std::string name = NameOf(object);
  if (name == "outbox.log" || name == "outbox.route" || name == "outbox.lane" || name == "outbox.parked") {
    JudgeWhole("drop table " + name);
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

// Takes the locks that the command takes, in the same order, before the check: then no event is added after it.
void LookAtDetach(const AlterTableStmt* statement) {
  for (int i = 0; i < list_length(statement->cmds); i++) {
    auto* command = static_cast<AlterTableCmd*>(list_nth(statement->cmds, i));
    if (command->subtype != AT_DetachPartition) {
      continue;
    }
    auto* partition = reinterpret_cast<PartitionCmd*>(command->def);
    const Oid table = Guard([&] {
      Oid parent = RangeVarGetRelid(statement->relation, NoLock, true);
      if (!OidIsValid(parent) || parent != days::DayTableParent(days::DayTableKind::kLog) ||
#if PG_VERSION_NUM >= 160000
          !object_ownercheck(RelationRelationId, parent, GetUserId())) {
#else
          !pg_class_ownercheck(parent, GetUserId())) {
#endif
        return InvalidOid;
      }
      Oid day = RangeVarGetRelid(partition->name, NoLock, true);
      if (OidIsValid(day) && !partition->concurrent) {
        LockRelationOid(parent, AccessExclusiveLock);
        LockRelationOid(day, AccessExclusiveLock);
      }
      return day;
    });
    if (OidIsValid(table) && Installed() && IsDayTable(table)) {
      JudgeDayTable(table, "detach");
    }
  }
}

// ALTER TABLE ... SET UNLOGGED, by hand, to spare WAL: a crash would empty the table.
void LookAtUnlogged(const AlterTableStmt* statement) {
  bool unlogged = false;
  for (int i = 0; i < list_length(statement->cmds); i++) {
    unlogged = unlogged || static_cast<AlterTableCmd*>(list_nth(statement->cmds, i))->subtype == AT_SetUnLogged;
  }
  if (!unlogged) {
    return;
  }
  const Oid table = Guard([&] {
    Oid found = RangeVarGetRelid(statement->relation, NoLock, true);
    return OidIsValid(found) && get_rel_namespace(found) == get_namespace_oid("outbox", true) ? found : InvalidOid;
  });
  if (!OidIsValid(table) || !Installed()) {
    return;
  }
  const std::string name = NameOf(table);
  if (pg::settings.allow_loss) {
    Warn("a crash will leave nothing in " + name, "It is not written to WAL any more.");
    NoteLoss("alter table " + name + " set unlogged", "");
    return;
  }
  throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot make " + name + " unlogged",
                  "A crash would leave nothing in it, and a standby has nothing of it.",
                  "Leave it as it is. To lose what it holds at the next crash: SET outbox.allow_loss = on."};
}

}  // namespace

MovingRows::MovingRows() {
  moving_rows = true;
}

MovingRows::~MovingRows() {
  moving_rows = false;
}

void LookForLoss(Node* statement) {
  drops_tables = nodeTag(statement) == T_DropStmt && reinterpret_cast<DropStmt*>(statement)->removeType == OBJECT_TABLE;
  whole_checked = false;
  switch (nodeTag(statement)) {
    case T_AlterTableStmt:
      LookAtUnlogged(reinterpret_cast<AlterTableStmt*>(statement));
      LookAtDetach(reinterpret_cast<AlterTableStmt*>(statement));
      break;
    default:
      break;
  }
}

std::string UndeliveredTo(const char* server) {
  return Look(server, nullptr).text;
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
  const Oid table = RelationGetRelid(trigger->tg_relation);
  const std::string name = NameOf(table);
  const bool truncate = TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event);
  // A day table that was detached is the user's own.
  if (moving_rows || !Installed() ||
      (table != outbox::days::DayTableParent(outbox::days::DayTableKind::kLog) && !IsDayTable(table))) {
    return PointerGetDatum(nullptr);
  }
  if (truncate) {
    Judge(Look(nullptr, name.c_str()), "truncate " + name);
  } else if (!outbox::pg::settings.allow_loss) {
    const Loss loss = Look(nullptr, name.c_str());
    throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    (TRIGGER_FIRED_BY_DELETE(trigger->tg_event) ? "cannot delete from " : "cannot update ") + name,
                    "The log is append-only, and its days are dropped whole." +
                        (loss.any ? " It holds undelivered events. " + loss.text : std::string()),
                    "outbox.retention says how long days are kept, outbox.seek() passes events over, outbox.forget() "
                    "erases what is kept of one key. To do it all the same: SET outbox.allow_loss = on."};
  } else {
    const Loss loss = Look(nullptr, name.c_str());
    NoteLoss((TRIGGER_FIRED_BY_DELETE(trigger->tg_event) ? "delete from " : "update ") + name, loss.text);
    if (loss.any) {
      Warn("the log is changed by hand while it holds undelivered events", loss.text);
    }
  }
  return PointerGetDatum(nullptr);
}
