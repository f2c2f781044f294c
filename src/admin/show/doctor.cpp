#include "admin/show/doctor.h"

#include <initializer_list>

#include "admin/lookup/processes.h"
#include "base/utf8.h"
#include "pg/entry.h"
#include "pg/subtransaction.h"
#include "pg/trouble_hints.h"

namespace outbox::admin {

std::string NamedTopics(const std::set<std::string>& topics) {
  constexpr size_t kNamed = 3;
  std::string names;
  size_t named = 0;
  for (const std::string& topic : topics) {
    if (named++ == kNamed) {
      names += ", ...";
      break;
    }
    names += (names.empty() ? "\"" : ", \"") + topic + "\"";
  }
  return topics.size() == 1 ? "topic " + names : std::to_string(topics.size()) + " topics (" + names + ")";
}

namespace {

// Who may ask what is wrong may not always do what mends it: a hint that names functions which the caller may not call
// says whose they are.
std::string WithOwner(std::string hint) {
  const Row names =
      RunSql(Access::kRead,
             "SELECT string_agg(n.name || '()', ', ' ORDER BY n.name COLLATE \"C\") FROM "
             "(SELECT DISTINCT m.names[1] AS name FROM regexp_matches($1, '\\m(\\w+)\\(', 'g') m (names)) n "
             "WHERE EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = 'outbox'::regnamespace "
             "AND p.proname = n.name AND NOT has_function_privilege($2::oid, p.oid, 'EXECUTE'))",
             {Cell(hint), Cell(std::to_string(GetUserId()))})[0];
  return names[0] ? hint + " (Of the owner of the extension: " + *names[0] + ".)" : hint;
}

}  // namespace

void Findings::Add(const char* check, const char* status, const std::string& detail, std::string hint) {
  if (!hint.empty() && hint.find("outbox.adopt()") == std::string::npos) {
    hint = first_ + hint;
  }
  if (!hint.empty()) {
    hint = WithOwner(std::move(hint));
  }
  // Topics may be made of keys, which hold anything. A hint is to be typed, so it has them to the letter.
  rows_.push_back(
      {Cell(check), Cell(status), Cell(LegibleUtf8(detail)), hint.empty() ? Cell() : Cell(std::move(hint))});
}

void Findings::Ok(const char* check, const std::string& detail) {
  Add(check, "ok", detail, "");
}

void Findings::Note(const char* check, const std::string& detail, std::string hint) {
  Add(check, "ok", detail, std::move(hint));
}

void Findings::Warn(const char* check, const std::string& detail, std::string hint) {
  Add(check, "warning", detail, std::move(hint));
}

void Findings::Problem(const char* check, const std::string& detail, std::string hint) {
  Add(check, "problem", detail, std::move(hint));
}

}  // namespace outbox::admin

namespace {

using namespace outbox::admin;

struct Check {
  const char* name;  // of its first row
  void (*look)(Findings*);
};

// Of a file that an error of a page names: " base/5/16643 is outbox_internal.lane."
std::string NameFile(const outbox::Error& error) {
  std::string said;
  if (outbox::pg::IsUnreadable(error.code)) {
    static_cast<void>(outbox::pg::TryPart(outbox::pg::ConcernsPart, [&] {
      for (const Row& row : RunSql(Access::kRead,
                                   "SELECT f.name, c.oid::regclass FROM pg_class c, "
                                   "substring($1 FROM '(?:base|pg_tblspc)/[^ \":]*/[0-9]+') f (name) "
                                   "WHERE pg_relation_filepath(c.oid) = f.name",
                                   {Cell(error.message)})) {
        said = " " + row[0].value_or("") + " is " + row[1].value_or("") + ".";
      }
    }));
  }
  return said;
}

// What ends one check ends no other: a page that cannot be read is when one wants to know of everything else.
template <typename Look>
bool Try(const char* name, Findings* findings, const Look& look) {
  const outbox::Status status = outbox::pg::TryPart(outbox::pg::ConcernsPart, look);
  if (status.ok()) {
    return true;
  }
  const outbox::Error& error = status.error();
  findings->Problem(name,
                    "This check failed, and could not look at all that it looks at: " + error.message + " (" +
                        error.code + ")." + NameFile(error),
                    outbox::pg::IsUnreadable(error.code) ? outbox::pg::kUnreadableHint
                    : outbox::pg::NamesLockSetting(error.message)
                        ? outbox::pg::kOutOfLocksHint
                        : "The server's log has the whole error. The other checks are not concerned.");
  return false;
}

void LookAt(std::initializer_list<Check> checks, Findings* findings) {
  for (const Check& check : checks) {
    static_cast<void>(Try(check.name, findings, [&] { check.look(findings); }));
  }
}

// A check that others rest on: false also where it failed.
bool LookFirst(const char* name, bool (*look)(Findings*), Findings* findings) {
  bool go_on = false;
  static_cast<void>(Try(name, findings, [&] { go_on = look(findings); }));
  return go_on;
}

Findings LookAtAll() {
  Findings findings;
  if (const std::optional<BarredServer> barred = ServerBars(); barred && RecoveryInProgress()) {
    CheckStandby(*barred, &findings);
    return findings;
  }
  LookAt({{"preload", CheckPreload}}, &findings);
  if (!LookFirst("version", CheckVersion, &findings)) {
    return findings;  // the others would look for tables that are not there
  }
  if (!LookFirst("locks", CheckLocks, &findings)) {
    LookAt({{"clock", CheckClock}}, &findings);
    return findings;
  }
  if (!LookFirst("owners", CheckReach, &findings)) {
    return findings;
  }
  LookAt({{"identity", CheckIdentity},
          {"clock", CheckStoredClock},
          {"durability", CheckDurability},
          {"retention", CheckRetention},
          {"publications", CheckPublications},
          {"subscriptions", CheckSubscriptions},
          {"owners", CheckOwners},
          {"rights", CheckRights}},
         &findings);
  bool copy = false;
  if (Try("identity", &findings, [&] { copy = CountIdentities().IsCopy(); }) && copy) {
    findings.Before("SELECT outbox.adopt() comes first, see the check \"identity\". If it is still said then: ");
  }
  LookAt({{"launcher", CheckProcesses},
          {"day tables", CheckDayTables},
          {"log", CheckLog},
          {"index", CheckIndexes},
          {"route", CheckRoutes},
          {"unrouted", CheckUnrouted},
          {"lone events", CheckLoneEmits},
          {"casts", CheckCasts},
          {"lane", CheckLanes},
          {"destination", CheckDestinations},
          {"held", CheckHolders},
          {"parked", CheckParked},
          {"replay", CheckReplays},
          {"pause", CheckPauses},
          {"adoption", CheckAdoption},
          {"guards", CheckGuards},
          {"triggers", CheckTriggers},
          {"foreign keys", CheckForeignKeys},
          {"foreign rows", CheckForeignRows},
          {"inbox", CheckInbox},
          {"figures", CheckFigures}},
         &findings);
  return findings;
}

}  // namespace

OUTBOX_FUNCTION(outbox_doctor) {
  ResultSet result(fcinfo);
  result.Begin();
  const Findings findings = LookAtAll();
  for (const Row& row : findings.rows()) {
    result.Add(row);
  }
  return static_cast<Datum>(0);
}

OUTBOX_FUNCTION(outbox_doctor_ok) {
  const Findings findings = LookAtAll();
  for (const Row& row : findings.rows()) {
    if (row[1] != "ok") {
      PG_RETURN_BOOL(false);
    }
  }
  PG_RETURN_BOOL(true);
}
