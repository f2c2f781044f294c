#include "admin/show/doctor.h"

#include "base/utf8.h"
#include "pg/entry.h"

namespace outbox::admin {

std::string Are(const std::string& count, const char* what, const char* is, const char* are) {
  return count + " " + what + (count == "1" ? "" : "s") + " " + (count == "1" ? is : are);
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

void Findings::Add(const char* check, const char* status, std::string detail, std::string hint) {
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

void Findings::Ok(const char* check, std::string detail) {
  Add(check, "ok", std::move(detail), "");
}

void Findings::Warn(const char* check, std::string detail, std::string hint) {
  Add(check, "warning", std::move(detail), std::move(hint));
}

void Findings::Problem(const char* check, std::string detail, std::string hint) {
  Add(check, "problem", std::move(detail), std::move(hint));
}

}  // namespace outbox::admin

namespace {

using namespace outbox::admin;

Findings LookAtAll() {
  Findings findings;
  if (RecoveryInProgress()) {
    CheckStandby(&findings);
    return findings;
  }
  CheckPreload(&findings);
  if (!CheckVersion(&findings)) {
    return findings;  // the others would look for tables that are not there
  }
  if (!CheckLocks(&findings)) {
    CheckClock(&findings);
    return findings;
  }
  if (!CheckReach(&findings)) {
    return findings;
  }
  for (auto check :
       {CheckIdentity, CheckClock, CheckRetention, CheckPublications, CheckSubscriptions, CheckOwners, CheckRights}) {
    check(&findings);
  }
  if (IsCopy()) {
    findings.Before("SELECT outbox.adopt() comes first, see the check \"identity\". If it is still said then: ");
  }
  for (auto check : {CheckProcesses, CheckDayTables, CheckLog, CheckIndexes, CheckRoutes, CheckLoneEmits, CheckLanes,
                     CheckDestinations, CheckHolders, CheckParked, CheckReplays, CheckPauses, CheckAdoption,
                     CheckGuards, CheckTriggers, CheckForeignKeys, CheckForeignRows, CheckInbox, CheckFigures}) {
    check(&findings);
  }
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
