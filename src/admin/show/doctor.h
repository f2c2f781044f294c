// The checks of outbox.doctor() [P]. Each but those of figures, locks, the inbox, casts and what no route takes adds at
// least one row, also when all is well, so that an answer shows what was checked. The statuses: ok (with a hint:
// somebody may have meant otherwise), warning (it works, or goes on by itself, as a destination that is down), problem
// (events are not published, or soon will not be, until somebody acts).
#pragma once

#include <set>
#include <string>
#include <vector>

#include "admin/common/query.h"

namespace outbox::admin {

class Findings {
 public:
  void Ok(const char* check, const std::string& detail);
  // All is well, and somebody may have meant otherwise.
  void Note(const char* check, const std::string& detail, std::string hint);
  void Warn(const char* check, const std::string& detail, std::string hint);
  void Problem(const char* check, const std::string& detail, std::string hint);
  using Way = void (Findings::*)(const char* check, const std::string& detail, std::string hint);
  const std::vector<Row>& rows() const { return rows_; }

  // From now on what is wrong follows from something that comes first: hints begin with what to do about that. Called
  // again it changes nothing: what comes first of all stays so.
  void Before(std::string first) { first_ = first_.empty() ? std::move(first) : first_; }

 private:
  void Add(const char* check, const char* status, const std::string& detail, std::string hint);
  std::vector<Row> rows_;
  std::string first_;
};

struct BarredServer;

// How many rows of one kind are told of, each by itself.
inline constexpr size_t kTold = 20;

// Tells of the first rows, and of the others how many there are. Returns how much there was to tell.
template <typename TellOf>
size_t TellOfEach(const std::vector<Row>& rows, Findings* findings, const char* check, const char* what,
                  const std::string& what_to_do, TellOf&& tell_of, Findings::Way others = &Findings::Warn) {
  for (size_t i = 0; i < rows.size() && i < kTold; i++) {
    tell_of(rows[i]);
  }
  if (rows.size() > kTold) {
    (findings->*others)(check, "And there are " + std::to_string(rows.size() - kTold) + " more such " + what + ".",
                        what_to_do);
  }
  return rows.size();
}

// 'topic "a"', '7 topics ("a", "b", "c", ...)'.
std::string NamedTopics(const std::set<std::string>& topics);

// Each check runs in a subtransaction, and one that fails has a row that says so.
//
// doctor_server.cpp: what concerns the server and this database's processes.
void CheckPreload(Findings* findings);
bool CheckVersion(Findings* findings);  // false: library and objects are of two versions
void CheckIdentity(Findings* findings);
void CheckProcesses(Findings* findings);
void CheckClock(Findings* findings);
void CheckStoredClock(Findings* findings);  // and what is stored of it
void CheckDurability(Findings* findings);
void CheckFigures(Findings* findings);
// All that is said on a hot standby, which has no process of outbox and writes nothing.
void CheckStandby(const BarredServer& barred, Findings* findings);

// doctor_locks.cpp: who keeps others waiting
// False: somebody has tables locked that the other checks read, for longer than a moment; nothing waits for that. Adds
// a row then, and only then.
bool CheckLocks(Findings* findings);
void CheckHolders(Findings* findings);

// doctor_log.cpp: the log, its days and its disk
void CheckDayTables(Findings* findings);
void CheckRetention(Findings* findings);
void CheckLog(Findings* findings);
void CheckIndexes(Findings* findings);

// doctor_routes.cpp: routes, lanes, destinations, pauses
void CheckRoutes(Findings* findings);
void CheckLanes(Findings* findings);
void CheckDestinations(Findings* findings);
void CheckPauses(Findings* findings);

// doctor_parked.cpp: events beside the log
void CheckParked(Findings* findings);
void CheckReplays(Findings* findings);

// doctor_copies.cpp: rows that come and go by other ways
void CheckAdoption(Findings* findings);
void CheckForeignRows(Findings* findings);
void CheckPublications(Findings* findings);
void CheckSubscriptions(Findings* findings);

// doctor_guards.cpp: what guards the tables, and what somebody has hung on them
void CheckGuards(Findings* findings);
void CheckTriggers(Findings* findings);
void CheckForeignKeys(Findings* findings);

// doctor_row_triggers.cpp: those that call outbox.emit_row(). Returns how many rows it added: none where all is well.
size_t CheckRowTriggers(Findings* findings);

// doctor_inbox.cpp: adds rows only where the inbox is used
void CheckInbox(Findings* findings);
// Consumers receive in this database, and nothing was ever emitted or routed here.
bool InboxAlone();
// Consumers receive in this database; there is no route, and no event in the log. For checks after that of locks.
bool NothingButInbox();

// lone_emits.cpp
void CheckLoneEmits(Findings* findings);

// doctor_casts.cpp: adds rows only where somebody made casts that matter
void CheckCasts(Findings* findings);

// doctor_unrouted.cpp
void CheckUnrouted(Findings* findings);

// doctor_rights.cpp
void CheckRights(Findings* findings);
void CheckOwners(Findings* findings);
// False: objects belong to several roles, and what runs as its owner may not read what the other checks read. Adds a
// row then, and only then.
bool CheckReach(Findings* findings);

}  // namespace outbox::admin
