// What is found out of one lane whose destination may have lost something, and what follows from it [P]. Filled inside
// of transactions and read after them, by the parts of log/loss/rewind: lost_acknowledged (what lanes noted),
// lost_parked (what went out of outbox_internal.parked), lane_history (earlier lanes of the route), rewind_plan (which
// reader begins where), rewind_words (the texts about it). Owned by RewindLane; the parts may raise PostgreSQL errors,
// and own no C++ object.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/position.h"
#include "base/uuid.h"
#include "log/progress/lane_tables.h"
#include "pg/prelude.h"
#include "pg/statement.h"
#include "relay/common/side_log.h"

namespace outbox::log {

// Rows of one lane and its side lanes in outbox_internal.progress; where it says so, of several lanes.
struct Stretch {
  int32 lane = 0;
  int64_t after = DT_NOBEGIN;  // outbox_internal.progress.at
  int64_t until = DT_NOEND;
  int32 lanes = 1;  // from `lane` on
};

// A lane, and what is asked of it.
struct Asked {
  int64_t route_id = 0;
  std::string_view server_run;
  int64_t looked = 0;  // number of the run under which it was looked at before
};

// The time of an earlier set of lanes of the route: until seek() or another number of lanes replaced them.
struct Former {
  int64_t after = 0;
  int64_t until = 0;
  int32 lanes = 0;
  bool reached = false;  // only the number of lanes has changed since: the later lanes go on where these were
  Position start;        // where these began
};

// Something that was delivered from outbox_internal.parked, and is lost.
struct LostParked {
  int64_t at = 0;  // outbox_internal.outcome.at
  int64_t created_at = 0;
  Uuid id{};
  int64_t replay = 0;
  uint64_t xid = 0;  // 0: not known
  std::string topic;
  bool known_lane = false;  // it is this lane's; else its key tells
};

// A topic that a side lane has delivered, and where that stood before anything that is lost.
struct LostTopic {
  std::string topic;
  Position kept;
};

// A side lane that is made, or moved.
struct SideMove {
  relay::SideLane side;
  Position position;
};

struct Finding {
  std::string route;
  std::string server;
  int64_t looked = 0;       // number of the run that has acknowledged something to the lane last
  int64_t looked_ever = 0;  // the highest number of such a run: it may have gone back to an earlier one
  int64_t told = 0;         // number of the newest run that has told what it still had; 0: none has
  bool wanted = false;      // it, or side lanes of it, have lost something
  bool seen = false;        // there was something to be looked at

  // The first event that is lost, of those acknowledged last.
  struct {
    bool any = false;
    std::string stream;
    std::string acknowledged;  // its id
    std::string survived;      // the last id that is there
  } loss;

  // What is lost is read again from a position before all of these.
  std::vector<Position> positions;
  bool all = false;         // back to where lanes began
  int64_t kept = DT_NOEND;  // when the oldest of these was saved, if it is no beginning
  std::string kept_at;      // the same time as text; "": there is none
  bool elsewhere = false;   // another destination has had some of what came later
  std::string why_not;      // it is not put back

  // What is not sent again without an operator was emitted from here on (created_at), and some that is there may have
  // been as well: for seek() and replay(). DT_NOBEGIN: not known; DT_NOEND: there is no such.
  int64_t missing_since = DT_NOEND;
  std::string missing_since_at;  // "": there is no such

  // Earlier lanes of the route; `beyond`: what they delivered before seek() put the lanes somewhere else, or adopt()
  // made them this database's, and what is not sent again for that reason.
  std::vector<Former> former;
  struct {
    bool any = false;
    int64_t border = DT_NOBEGIN;
    std::string border_at;
    int64_t kept = DT_NOEND;  // when the oldest position before that was saved
  } beyond;

  // What was delivered before outbox.alter_route() goes again as the route is now: what it takes no more does not
  // (`narrowed`), and what had another topic or mode goes elsewhere (`moved`). `at`: the last such change; DT_NOBEGIN:
  // there was none.
  struct {
    int64_t at = DT_NOBEGIN;
    std::string at_text;
    bool narrowed = false;
    bool moved = false;
  } altered;

  struct {
    std::vector<LostTopic> topics;
    std::vector<relay::SideLane> present;  // side lanes that there are
    std::vector<LaneRow> stands;           // and where
    std::string topic_template;
    std::vector<SideMove> moves;
  } sides;

  struct {
    std::vector<LostParked> events;
    bool more = false;    // there may be others, which were not looked for yet
    int64_t again = 0;    // of these, so many are sent again
    int64_t missing = 0;  // and so many cannot be
  } parked;

  std::vector<int32> lost;  // scratch, like the next ones: lanes of a stretch
  std::vector<int32> numbers;
  std::vector<std::string> names;
  std::string text;
};

inline void Assign(uint64 row, int column, std::string* text) {
  const char* value = pg::ResultText(row, column);
  text->assign(value == nullptr ? "" : value);
}

}  // namespace outbox::log
