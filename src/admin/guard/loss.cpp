#include "admin/guard/loss.h"

#include "admin/common/operation.h"
#include "admin/common/query.h"
#include "base/count_text.h"
#include "days/day_table_ddl.h"
#include "pg/settings.h"
#include "pg/transaction.h"

extern "C" {
#include "catalog/partition.h"
#include "commands/extension.h"
}

namespace outbox::admin {

using pg::Guard;
using pg::UserError;

namespace {

// The tables without which events are lost, or an answer cannot be made, beside the log's day tables. Those that
// schema/27_loss.sql has the triggers no_loss on are among them: scripts/check-guards compares.
constexpr const char* kStateTables[] = {"log",       "log_spare",  "route",    "lane",    "progress", "parked",
                                        "side_lane", "side_topic", "adoption", "adopted", "identity", "foreign_event"};

// What is asked of an extension of another version: undelivered.cpp.
constexpr const char* kOfAnyVersion[] = {"log", "route", "parked"};

constexpr const char* kWayOut =
    "Wait until they are delivered, or give them up: CALL outbox.seek(route, 'infinity', dry_run => false), "
    "outbox.skip(), "
    "outbox.drop_route(). To lose them all the same: SET outbox.allow_loss = on.";

}  // namespace

void JudgeLoss(const Loss& loss, const std::string& command, bool keeps_audit, const char* because,
               const char* warning) {
  if (!loss.any) {
    if (loss.dead > 0) {
      Notice(CountText(loss.dead, "dead letter goes", "dead letters go") + " with it");
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
  if (loss.uncounted != nullptr) {
    throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    "cannot " + command + " because events may be undelivered", loss.text,
                    std::string(loss.uncounted) + " To lose them all the same: SET outbox.allow_loss = on."};
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

bool StateTablesExist() {
  return Guard([] { return OtherVersion(); }) == nullptr ? HasTables(kStateTables) : HasTables(kOfAnyVersion);
}

bool IsDayTable(Oid relation) {
  return Guard([relation] {
    return relation == days::SpareTable() ||
           (get_rel_relispartition(relation) &&
            get_partition_parent(relation, true) == days::DayTableParent(days::DayTableKind::kLog));
  });
}

void JudgeDayTable(Oid relation, const char* command) {
  const std::string name = NameOf(relation);
  JudgeLoss(FindLoss({.table = name.c_str()}), command + (" " + name));
}

Oid WholeOf(Oid table) {
  return get_rel_relispartition(table) ? get_partition_parent(table, true) : table;
}

std::string NameOf(Oid relation) {
  const char* name = Guard([relation]() -> const char* {
    // Not as SQL quotes it: whoever compares gets the same under quote_all_identifiers.
    return psprintf("%s.%s", get_namespace_name(get_rel_namespace(relation)), get_rel_name(relation));
  });
  return name;
}

void Warn(const std::string& message, const std::string& detail) {
  const char* text = message.c_str();
  const char* more = detail.c_str();
  Guard([&] { ereport(WARNING, (errmsg("%s", text), errdetail("%s", more))); });
}

void NoteLoss(const std::string& command, const std::string& what, int64 rows) {
  JsonObject detail;
  detail.Add("command", Cell(command)).Add("lost", what.empty() ? Cell() : Cell(what));
  if (rows > 0) {
    detail.Add("rows", rows);
  }
  WriteAudit("allow_loss", Cell(), Cell(), detail, Cell());
}

void RefuseByHand(const std::string& command, const std::string& why, const std::string& way) {
  if (pg::settings.allow_loss) {
    NoteLoss(command, "");
    return;
  }
  const std::string message = "cannot " + command;
  throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, message, why,
                  way + " To do it all the same, and answer for it: SET outbox.allow_loss = on."};
}

void CheckExtensionContents(Node* statement) {
  const auto* alter = reinterpret_cast<AlterExtensionContentsStmt*>(statement);
  if (strcmp(alter->extname, "outbox") != 0 || creating_extension || !StateTablesExist()) {
    return;
  }
  const bool takes = alter->action < 0;
  if (takes) {
    JudgeGuards("take anything out of extension outbox");
  }
  if (!pg::settings.allow_loss) {
    throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    takes ? "cannot take anything out of extension outbox" : "cannot add anything to extension outbox",
                    takes ? "DROP EXTENSION, ALTER EXTENSION UPDATE and pg_dump would not know any more that it is a "
                            "part of it, and a dump could not be restored."
                          : "It would be in no dump, and DROP EXTENSION would take it along.",
                    std::string(takes ? "Leave it there." : "Keep what is yours in objects of your own.") +
                        " To do it all the same, and answer for it: SET outbox.allow_loss = on."};
  }
  if (!takes) {
    NoteLoss("add to extension outbox", "");
  }
}

void JudgeDetach(Oid table) {
  if (StateTablesExist() && IsDayTable(table)) {
    JudgeDayTable(table, "detach");
  }
}

void JudgeGuards(const std::string& command) {
  if (StateTablesExist()) {
    Loss loss = FindLoss({});
    loss.dead = 0;  // none of them goes
    JudgeLoss(loss, command, true, kThereAre, "undelivered events have lost a guard");
  }
}

}  // namespace outbox::admin
