// What outbox.doctor() says of events beside the log: what is overdue, dead letters, replays [P].
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "admin/lookup/parked_counts.h"
#include "admin/lookup/route_lanes.h"
#include "admin/lookup/shared_views.h"
#include "admin/show/doctor.h"
#include "admin/show/side_trouble.h"
#include "base/count_text.h"
#include "pg/trouble_hints.h"
#include "pg/wall.h"

namespace outbox::admin {

namespace {

// Parked events that are due and have not gone: one finding of a route and error, however many topics have it. True
// when there are any.
bool CheckOverdue(const std::vector<Overdue>& overdue, Findings* findings) {
  const std::vector<LaneRecord> lanes = LoadLanes(std::nullopt);
  const std::vector<OwnedLaneView> views = ReadLaneViews(MyDatabaseId);
  const LaneViews by_lane(views);
  const std::vector<Pause> pauses = LoadPauses();
  struct Wait {
    Overdue all;
    std::string why;
    std::string code;
    bool topic = false;  // that is the topic's
  };
  std::map<std::pair<std::string, std::string>, Wait> waits;  // by route and topic
  for (const Overdue& one : overdue) {
    const auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const LaneRecord& record) {
      return record.route_id == one.route_id && record.lane == one.lane;
    });
    if (lane == lanes.end()) {
      continue;
    }
    Wait& wait = waits[{lane->route, one.topic}];
    wait.all.due = wait.all.count == 0 ? one.due : std::min(wait.all.due, one.due);
    wait.all.count += one.count;
    wait.all.capped = wait.all.capped || one.capped;
    const int side = lane->SideOfTopic(one.topic);
    const OwnedLaneView* view = by_lane.Find(lane->route_id, lane->lane);
    if (side >= 0) {
      const SideRecord& left = lane->sides[static_cast<size_t>(side)];
      const SideTrouble now =
          TroubleOf(*lane, left, one.topic, by_lane.Find(lane->route_id, lane->lane, left.side), pauses);
      wait.why = now.error_code.empty() ? "" : now.text();
      wait.code = now.error_code;
      wait.topic = !now.paused && now.error_class == ErrorClassName(ErrorClass::kTopic);
    } else if (one.error_code) {
      wait.why = *one.error_code + ": " + one.error_message.value_or("");
      wait.code = *one.error_code;
      wait.topic = true;
    } else if (view != nullptr && view->owned && !view->trouble.empty() && wait.why.empty()) {
      wait.code = view->trouble.code;
      wait.why = wait.code + ": " + view->trouble.message;
    }
  }
  struct Shared {
    Overdue all;
    std::string why;
    std::set<std::string> topics;
  };
  std::map<std::tuple<std::string, std::string, bool>, Shared> shared;  // by route, code, and whether it is the topic's
  const int64 until = pg::BelievedWall() - kOverdueGrace;
  for (const auto& [name, wait] : waits) {
    if (wait.all.due > until) {
      continue;
    }
    Shared& one = shared[{name.first, wait.code, wait.topic}];
    one.all.due = one.topics.empty() ? wait.all.due : std::min(one.all.due, wait.all.due);
    one.all.count += wait.all.count;
    one.all.capped = one.all.capped || wait.all.capped;
    one.why = one.topics.empty() ? wait.why : one.why;
    one.topics.insert(name.second);
  }
  for (const auto& [of, one] : shared) {
    const auto& [route, code, topics_own] = of;
    const bool many = one.topics.size() > 1;
    findings->Warn(
        "overdue",
        std::string(one.all.capped ? "At least " : "") +
            CountText(one.all.count, "parked event is", "parked events are") + " due, since " +
            UnixMicrosText(one.all.due) + ", and not delivered: " + NamedTopics(one.topics) + " of route \"" + route +
            "\"" + (one.why.empty() ? "." : (many ? ", such as: " : ": ") + one.why),
        (topics_own ? pg::TopicHint(code) + std::string(": they follow by themselves, unless somebody has paused them.")
                    : "They follow by themselves once topic and destination take events, and nobody pauses "
                      "them; outbox.lag shows what is in the way.") +
            (many ? " outbox.parked_event names all of the topics." : ""));
  }
  return !shared.empty();
}

// At the beginning of a sentence.
std::string Sentence(std::string text) {
  text[0] = pg_toupper(static_cast<unsigned char>(text[0]));
  return text;
}

}  // namespace

void CheckParked(Findings* findings) {
  const std::vector<Overdue> due = LoadOverdue(Access::kRead);
  const bool overdue = CheckOverdue(due, findings);
  int64 turns = 0;
  bool turns_capped = false;
  for (const Overdue& one : due) {
    turns += one.turns;
    turns_capped = turns_capped || one.capped;
  }
  ParkedCount all;
  for (const auto& [lane, parked] : CountParked(Access::kRead)) {
    all.Add(parked);
  }
  // In the table these are retrying, too.
  const int64 retried = std::max<int64>(all.retrying - turns, 0);
  const auto text = [&](int64 counted, const char* one, const char* many) {
    return ParkedCountText(counted, all.capped) + (counted == 1 ? one : many);
  };
  if (all.capped) {
    findings->Warn(
        "parked",
        "More events are parked than are counted here: " + std::to_string(kParkedCountLimit) + " of a lane and state.",
        "SELECT count(*) FROM outbox.parked_event counts all of them.");
  }
  if (all.dead > 0) {
    findings->Warn("dead letters",
                   Sentence(text(all.dead, " event was", " events were") + " refused and will not be tried again."),
                   "outbox.dead_letter_summary says why; outbox.redrive(), retry() and discard() act on them.");
  }
  if (all.retrying > 0 || all.blocked > 0) {
    findings->Warn("parked",
                   Sentence(text(retried, " event is", " events are")) + " being retried, " +
                       (turns == 0   ? ""
                        : turns == 1 ? "1 is due that never was refused, "
                                     : ParkedCountText(turns, turns_capped) + " are due that never were refused, ") +
                       text(all.blocked, " waits", " wait") + " behind another one or a pause.",
                   "outbox.blocked_key shows who waits for whom; outbox.status(id) says when it is tried next.");
  }
  if (all.dead == 0 && all.retrying == 0 && all.blocked == 0 && !overdue) {
    findings->Ok("parked", all.scheduled == 0 ? "No event is parked."
                                              : Sentence(text(all.scheduled, " event is", " events are")) +
                                                    " scheduled, no other is parked.");
  }
}

void CheckReplays(Findings* findings) {
  for (const Row& row : RunSql(Access::kRead,
                               "SELECT number, copied, matched FROM outbox.replay WHERE state = 'interrupted' "
                               "ORDER BY number")) {
    findings->Warn("replay",
                   "Replay " + row[0].value() + " was interrupted: " + row[1].value() + " of " + row[2].value() +
                       " events are scheduled.",
                   "CALL outbox.replay(number => " + row[0].value() +
                       ", dry_run => false) goes on; SELECT outbox.cancel_replay(" + row[0].value() + ") ends it.");
  }
}

}  // namespace outbox::admin
