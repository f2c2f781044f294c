// What outbox.doctor() says of routes, lanes, destinations and pauses [P].
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

#include "admin/commands/user_mapping.h"
#include "admin/common/text_encoding.h"
#include "admin/lookup/pauses.h"
#include "admin/lookup/processes.h"
#include "admin/lookup/route_lanes.h"
#include "admin/lookup/server.h"
#include "admin/lookup/shared_views.h"
#include "admin/show/doctor.h"
#include "admin/show/side_trouble.h"
#include "base/count_text.h"
#include "pg/log_line.h"
#include "pg/shared.h"
#include "pg/trouble_hints.h"

namespace outbox::admin {

namespace {

// Mappings that nobody uses, which somebody may take for those that are.
void CheckUserMappings(const std::set<std::string>& servers, Findings* findings) {
  int64 with = 0;
  for (const std::string& server : servers) {
    const UserMappings mappings = FindUserMappings(Access::kRead, server);
    with += !mappings.used.empty();
    if (!mappings.ours || mappings.unused.empty()) {
      continue;
    }
    std::string names;
    for (const std::string& name : mappings.unused) {
      names += (names.empty() ? "" : ", ") + name;
    }
    findings->Warn("user mapping",
                   "Server \"" + server + "\" is used " +
                       (mappings.used.empty() ? "without a user mapping, and has"
                                              : "with the user mapping of " + mappings.used + ", and has another") +
                       (mappings.unused.size() == 1 ? " one of " : " of each of ") + names + ", which nobody uses.",
                   UserMappingRule(mappings) + " DROP USER MAPPING removes the others.");
  }
  if (with > 0) {
    findings->Ok("user mapping",
                 CountText(with, "server is", "servers are") + " used with a user mapping; see pg_user_mappings.");
  }
}

}  // namespace

void CheckRoutes(Findings* findings) {
  std::set<std::string> seen;
  std::set<std::string> servers;
  const bool copy = CountIdentities().IsCopy();
  size_t good = 0;
  for (const LaneRecord& lane : LoadLanes(std::nullopt)) {
    if (!seen.insert(lane.route).second) {
      continue;
    }
    servers.insert(lane.server);
    const sink::RequiredOption* missing = nullptr;
    if (lane.works()) {
      std::optional<Destination> destination = FindDestination(lane.server);
      missing = destination ? MissingOption(*destination) : nullptr;
    }
    if (!lane.works()) {
      findings->Problem(
          "route", "Route \"" + lane.route + "\": " + lane.trouble + ".",
          std::string(lane.edited ? "Somebody has edited outbox.route. alter_route() mends it: give it a right topic, "
                                    "key, format or options."
                                  : "Use alter_route(..., server => ...), or make the server again.") +
              (copy && (lane.spec == nullptr || !lane.knows_topic)
                   ? " That comes before outbox.adopt(), which takes over no route whose topics are not known."
                   : ""));
    } else if (missing != nullptr) {
      findings->Problem(
          "route",
          "Route \"" + lane.route + "\": server \"" + lane.server + "\" has no option \"" + missing->name + "\".",
          "ALTER SERVER ... OPTIONS (ADD ...).");
    } else {
      good++;
    }
  }
  for (const Row& row : RunSql(
           Access::kRead,
           "SELECT r.name, EXISTS (SELECT FROM outbox.audit WHERE action = 'allow_loss' AND detail ->> 'command' LIKE "
           "'%outbox_internal.lane') FROM outbox.route r WHERE NOT EXISTS (SELECT FROM outbox_internal.lane l WHERE "
           "l.route_id = r.id) ORDER BY r.name")) {
    seen.insert(row[0].value());
    findings->Problem(
        "route", "Route \"" + row[0].value() + "\" has no lanes: nothing of it is delivered.",
        std::string(row[1] == "t"
                        ? "Somebody has deleted them."
                        : "A dump was restored into the database that it was made of, or into one with the "
                          "same number on another server that was made of the same files, where its lanes "
                          "are refused: restore it into a new one. Or somebody has deleted them past all triggers.") +
            " drop_route() and create_route(..., start => 'earliest') make it again, with what the log still has.");
  }
  if (seen.empty() && NothingButInbox()) {
    findings->Note("route", "There is no route, and need not be: consumers receive here, and the log has no events.",
                   "Where events are to go from here, too: SELECT outbox.create_route('everything', server => '...').");
  } else if (seen.empty()) {
    findings->Warn("route", "There is no route: events are kept for outbox.retention and go nowhere.",
                   "SELECT outbox.create_route('everything', server => '...').");
  } else if (good > 0) {
    findings->Ok("route", CountText(good, "route is", "routes are") + " in order.");
  }
  CheckUserMappings(servers, findings);
}

namespace {

// Topics that have left their lanes because something is wrong with them: one finding of a route and error, however
// many topics have it, and however many lanes each has left.
struct TopicTrouble {
  std::set<std::string> topics;
  int64 lanes = 0;
  std::string first;  // lane, for people
  std::string message;
};
using TopicTroubles = std::map<std::pair<std::string, std::string>, TopicTrouble>;  // by route and code

void NoteSide(const LaneRecord& lane, const std::string& name, const SideRecord& side, const OwnedLaneView* view,
              const std::vector<Pause>& pauses, TopicTroubles* troubles) {
  bool counted = false;
  for (const SideRecord::Topic& one : side.topics) {
    const std::string topic = FromUtf8(one.topic);
    const SideTrouble now = TroubleOf(lane, side, topic, view, pauses);
    // Of pauses CheckPauses tells, of destinations CheckDestinations; one that has been resumed is on its way back.
    if (now.paused || now.error_class != ErrorClassName(ErrorClass::kTopic)) {
      continue;
    }
    TopicTrouble& trouble = (*troubles)[{lane.route, now.error_code}];
    trouble.topics.insert(topic);
    if (!counted && trouble.lanes++ == 0) {
      trouble.first = name;
      trouble.message = now.error_message;
    }
    counted = true;
  }
}

void TellTopics(const TopicTroubles& troubles, Findings* findings) {
  for (const auto& [of, trouble] : troubles) {
    const auto& [route, code] = of;
    const bool one = trouble.lanes == 1;
    const bool many = trouble.topics.size() > 1;
    const std::string detail = (one    ? trouble.first
                                : many ? "Route \"" + route + "\""
                                       : std::to_string(trouble.lanes) + " lanes of route \"" + route + "\"") +
                               ": " + NamedTopics(trouble.topics) + (many ? " have" : " has") + " left " +
                               (one    ? "it: "
                                : many ? "their lanes: "
                                       : "them: ") +
                               code + (many ? ", such as: " : ": ") + trouble.message;
    const std::string hint = (many ? "They stop no other topic; their events wait in the log. "
                                   : "It stops no other topic; its events wait in the log. ") +
                             std::string(pg::TopicHint(code)) +
                             ": they follow by themselves, unless somebody has paused them." +
                             (many ? " outbox.lag names all of them." : "");
    code == pg::kBrokerRefuses ? findings->Problem("topic", detail, hint) : findings->Warn("topic", detail, hint);
  }
}

// Routes that are on their way to another number of lanes.
void CheckLaneChanges(Findings* findings) {
  for (const Row& row : RunSql(
           Access::kRead,
           "SELECT r.name, r.lanes, r.lanes_wanted, t.away, r.lanes_begun IS NOT NULL, t.paused FROM outbox.route r, "
           "LATERAL (SELECT count(*), count(*) FILTER (WHERE EXISTS (SELECT FROM outbox.pause p WHERE p.route_id = "
           "t.route_id AND p.topic = t.topic)) FROM outbox_internal.side_topic t "
           "WHERE t.route_id = r.id) t (away, paused) WHERE r.lanes_wanted IS NOT NULL ORDER BY r.name")) {
    const std::string resume = ResumeCalls(Access::kRead, row[0].value());
    findings->Warn(
        "lanes",
        "Route \"" + row[0].value() + "\" goes from " + row[1].value() + " to " + row[2].value() +
            " lanes: all of them come to one position first.",
        !resume.empty()
            ? "It is paused, and waits for " + resume + ": lanes that stand still come to no common position."
        : row[3] != "0" ? "It waits for the topics that have left their lanes" +
                              std::string(row[5] != "0" ? ", some of which are paused (outbox.resume())" : "") +
                              "; meanwhile all lanes work."
        : row[4] == "t"
            ? "That takes as long as what was under way; delay in outbox.lag says how far each lane has to go."
            : "It begins as soon as every lane is within seconds of the end of the log (delay in "
              "outbox.lag says how far each has to go) and no session has a parked event of the "
              "route in an open transaction; all lanes work meanwhile.");
  }
}

// Of what a destination that works warns of.
std::string HintOfWarning(std::string_view code) {
  return code == pg::kThrottled         ? pg::kThrottledHint
         : code == pg::kOffsetsWentBack ? pg::kOffsetsWentBackHint
                                        : "It goes when its cause has gone and the connection is made anew, as ALTER "
                                          "SERVER does it; what is said of lost events goes after an hour.";
}

// It does not go by itself.
bool NeedsAPerson(const outbox::ErrorText& met) {
  return met.error_class == ErrorClass::kConfig ||
         (met.error_class == ErrorClass::kInternal && pg::IsUnreadable(met.code)) ||
         std::string_view(met.code) == pg::kPositionAhead || std::string_view(met.code) == pg::kLimitExceeded;
}

// What somebody has to do about it; nullptr: nothing that is known here.
const char* CureOf(const outbox::ErrorText& met) {
  const std::string_view code = met.code;
  if (const char* servers = pg::ServersHint(code, met.message)) {
    return servers;
  }
  return !NeedsAPerson(met)                 ? nullptr
         : code.starts_with(pg::kSinkCodes) ? pg::SinkHint(met.message)
         : code == pg::kNoStandby           ? pg::kNoStandbyHint
         : code == pg::kTwoClusters         ? pg::kTwoClustersHint
         : pg::IsOfTls(code)                ? pg::kTlsHint
                                            : "An option, a credential or a right has to be changed.";
}

constexpr const char* kPausedHint = "It is paused, see outbox.pause: it is tried again after outbox.resume().";

// Lanes with the same trouble: one destination that is down is one finding, however many routes go there, and whatever
// each of them met of it: one lost its connection where the next got none, until it tries again itself.
struct SharedTrouble {
  struct Met {
    int64 lanes = 0;
    std::string what;
  };
  int64 lanes = 0;
  std::set<std::string> routes;
  std::string first;               // lane, for people
  std::map<std::string, Met> met;  // by code
  std::string hint;
  bool person = false;
};

// What most of them met, and then the others.
std::string WhatTheyMet(const SharedTrouble& trouble) {
  const auto most = std::max_element(trouble.met.begin(), trouble.met.end(),
                                     [](const auto& a, const auto& b) { return a.second.lanes < b.second.lanes; });
  std::string text = most->second.what;
  for (auto met = trouble.met.begin(); met != trouble.met.end(); met++) {
    if (met != most) {
      text += "; " + std::to_string(met->second.lanes) + " of them: " + met->second.what;
    }
  }
  return text;
}

void TellTrouble(const std::string& server, const SharedTrouble& trouble, Findings* findings) {
  const std::string who = trouble.lanes == 1
                              ? trouble.first
                              : CountText(trouble.lanes, "lane") + " of " + CountText(trouble.routes.size(), "route") +
                                    " to \"" + server + "\" (such as l" + trouble.first.substr(1) + ")";
  const std::string what = WhatTheyMet(trouble);
  const std::string detail = who + (what.starts_with(' ') ? "" : ": ") + what;
  trouble.person ? findings->Problem("lane", detail, trouble.hint) : findings->Warn("lane", detail, trouble.hint);
}

// By server and class, and by code where it is not the destination.
using SharedTroubles = std::map<std::tuple<std::string, std::string, std::string>, SharedTrouble>;

SharedTrouble* Note(const LaneRecord& lane, const std::string& name, ErrorClass error_class, const char* code,
                    const std::string& what, SharedTroubles* troubles) {
  const bool destination = error_class == ErrorClass::kDestination;
  SharedTrouble& trouble = (*troubles)[{lane.server, ErrorClassName(error_class), destination ? "" : code}];
  trouble.lanes++;
  trouble.routes.insert(lane.route);
  trouble.first = trouble.first.empty() ? name : trouble.first;
  SharedTrouble::Met& met = trouble.met[code];
  met.lanes++;
  met.what = what;
  return &trouble;
}

void NoteUnowned(const LaneRecord& lane, const std::string& name, const std::vector<WorkerView>& workers,
                 SharedTroubles* troubles) {
  SharedTrouble* trouble = Note(lane, name, ErrorClass::kNone, "", "", troubles);
  const ErrorText* const why = WhyUnclaimed(workers);
  trouble->met[""].what =
      std::string(trouble->lanes == 1 ? " has no relay worker" : " have no relay worker") +
      (why == nullptr ? std::string(".")
                      : std::string(": one that runs cannot claim lanes, ") + why->code + ": " + why->message);
  if (why == nullptr) {
    trouble->hint = CountRelays(workers) > 0
                        ? "A relay worker runs, and claims free lanes within a second or two where nothing is in its "
                          "way; else the server's log says what is."
                        : "A free lane is claimed within a second or two where a relay worker runs.";
    return;
  }
  const bool used_xids = pg_atomic_read_u64(&pg::Shared()->used_xid) != 0;
  const char* known = used_xids ? pg::kUsedXidsHint : pg::ServersHint(why->code, why->message);
  trouble->person = std::strcmp(why->code, kLocked) != 0;
  trouble->hint = known != nullptr ? known
                                   : "It is tried again by itself; nothing of these lanes is sent before what the "
                                     "error says is mended. The server's log has all of it.";
}

void NoteTrouble(const LaneRecord& lane, const std::string& name, const LaneView& view, SharedTroubles* troubles) {
  const ErrorText& met = view.trouble;
  SharedTrouble* trouble =
      Note(lane, name, met.error_class, met.code,
           std::string(ErrorClassName(met.error_class)) + " trouble, " + met.code + ": " + met.message, troubles);
  const char* cure = CureOf(met);
  trouble->person = NeedsAPerson(met);
  trouble->hint = view.state == LaneState::kPaused ? kPausedHint
                  : cure != nullptr                ? cure
                  : met.error_class == ErrorClass::kTopic
                      ? pg::TopicHint(met.code) + std::string("; it is tried again by itself.")
                  : view.next_try_unix == 0 ? "It is being tried again by itself, right now; see outbox.destination."
                                            : "It is tried again by itself; outbox.lag says when.";
}

struct LaneCounts {
  int64 good = 0;
  int64 unseen = 0;
  int64 waiting = 0;
  int64 leaving = 0;
  int64 paused = 0;
};

// Its worker gives it back: what it has met was where the lane is not sent to any more, or is for its next owner to
// meet. Trouble with our own tables may be what keeps it.
bool IsLeaving(const LaneRecord& lane, const LaneView& view, const std::map<std::string, uint32>& servers) {
  const auto server = servers.find(lane.server);
  return view.trouble.error_class != ErrorClass::kInternal &&
         (view.state == LaneState::kReleasing ||
          (view.server != 0 && server != servers.end() && view.server != server->second));
}

std::map<std::string, uint32> ServerOids() {
  std::map<std::string, uint32> servers;
  for (const Row& row : RunSql(Access::kRead, "SELECT s.srvname, s.oid FROM pg_foreign_server s")) {
    servers[row[0].value()] = static_cast<uint32>(Number(row[1]));
  }
  return servers;
}

void TellCounts(const LaneCounts& lanes, Findings* findings) {
  if (lanes.unseen > 0 && LanePlaceIsFree()) {
    findings->Ok("lane", CountText(lanes.unseen, "lane has", "lanes have") +
                             " a relay worker that has not shown yet what it does.");
  } else if (lanes.unseen > 0) {
    findings->Warn("lane",
                   CountText(lanes.unseen, "lane has", "lanes have") +
                       " a relay worker and no place to show what it does: outbox.max_lanes is " +
                       std::to_string(pg::Shared()->max_lanes) + ". Nobody sees what is in the way of such a lane.",
                   "Set outbox.max_lanes to the number of lanes of all databases, and more, and restart the server.");
  }
  if (lanes.waiting > 0) {
    findings->Ok("lane", CountText(lanes.waiting, "lane waits", "lanes wait") +
                             " for this database's relay worker, which has no place at the moment.");
  }
  if (lanes.leaving > 0) {
    findings->Ok("lane", CountText(lanes.leaving, "lane is", "lanes are") +
                             " being given back by the relay worker, as after alter_route() or when another one takes "
                             "its part: that waits a few seconds at most for what is in flight.");
  }
  if (lanes.paused > 0) {
    findings->Ok("lane", CountText(lanes.paused, "lane is", "lanes are") + " paused, see outbox.pause.");
  }
  if (lanes.good > 0) {
    findings->Ok("lane", CountText(lanes.good, "lane works.", "lanes work."));
  }
}

}  // namespace

void CheckLanes(Findings* findings) {
  std::vector<OwnedLaneView> views = ReadLaneViews(MyDatabaseId);
  const LaneViews by_lane(views);
  const std::set<std::pair<int64, int>> not_shown = LanesNotShown(Access::kRead, by_lane);
  const bool in_turn = pg::Shared() != nullptr && pg_atomic_read_u32(&pg::Shared()->in_turn) != 0;
  SharedTroubles troubles;
  TopicTroubles topics;
  LaneCounts counts;
  const std::vector<WorkerView> workers = ReadWorkerViews();
  const std::vector<Pause> pauses = LoadPauses();
  const std::map<std::string, uint32> servers = ServerOids();
  for (const LaneRecord& lane : LoadLanes(std::nullopt)) {
    const OwnedLaneView* view = by_lane.Find(lane.route_id, lane.lane);
    const std::string name = "Lane " + std::to_string(lane.lane) + " of route \"" + lane.route + "\"";
    const bool owned = view != nullptr && view->owned;
    if (not_shown.contains({lane.route_id, lane.lane})) {
      counts.unseen++;
    } else if (!owned && in_turn) {
      counts.waiting++;
    } else if (!owned) {
      NoteUnowned(lane, name, workers, &troubles);
    } else if (IsLeaving(lane, *view, servers)) {
      counts.leaving++;
    } else if (!view->trouble.empty()) {
      NoteTrouble(lane, name, *view, &troubles);
    } else if (view->state == LaneState::kPaused) {
      counts.paused++;
    } else {
      counts.good++;
    }
    for (const SideRecord& side : lane.sides) {
      NoteSide(lane, name, side, by_lane.Find(lane.route_id, lane.lane, side.side), pauses, &topics);
    }
  }
  for (const auto& [of, trouble] : troubles) {
    TellTrouble(std::get<0>(of), trouble, findings);
  }
  TellTopics(topics, findings);
  CheckLaneChanges(findings);
  TellCounts(counts, findings);
}

namespace {

// One finding of a route, however many keys of it are paused.
void CheckPausedKeys(Findings* findings) {
  constexpr int64 kNamed = 3;
  std::string names;
  for (const Row& row :
       RunSql(Access::kRead,
              "SELECT r.name, p.aggregate_type, p.aggregate_id, p.reason, p.paused_by, p.n, p.keys FROM (SELECT z.*, "
              "row_number() OVER w AS n, count(*) OVER (PARTITION BY z.route_id) AS keys FROM outbox.pause z "
              "WHERE z.aggregate_type IS NOT NULL WINDOW w AS (PARTITION BY z.route_id ORDER BY z.id)) p "
              "JOIN outbox.route r ON r.id = p.route_id WHERE p.n <= $1::bigint ORDER BY r.name, p.n",
              {Cell(std::to_string(kNamed))})) {
    const std::string key = "\"" + row[1].value() + "\" \"" + row[2].value() + "\"";
    const std::string of_route = " of route \"" + row[0].value() + "\"";
    const std::string why = row[4].value() + ": " + row[3].value();
    const int64 keys = Number(row[6]);
    if (keys == 1) {
      findings->Warn("pause", "Key " + key + of_route + " was paused by " + why,
                     "outbox.resume() with the same arguments lets it go.");
      continue;
    }
    names = (row[5] == "1" ? "" : names + "; ") + key + " by " + why;
    if (row[5] == std::to_string(std::min(keys, kNamed))) {
      findings->Warn(
          "pause",
          std::to_string(keys) + " keys" + of_route + " are paused" + (keys > kNamed ? ", such as " : ": ") + names,
          "outbox.pause shows all of them; outbox.resume() with the same arguments lets one go.");
    }
  }
}

}  // namespace

void CheckPauses(Findings* findings) {
  for (const Row& row : RunSql(Access::kRead,
                               "SELECT r.name, p.server, p.topic, p.reason, "
                               "p.paused_by FROM outbox.pause p LEFT JOIN outbox.route r ON r.id = p.route_id "
                               "WHERE p.aggregate_type IS NULL ORDER BY p.id")) {
    std::string of_route = row[0] ? "route \"" + *row[0] + "\"" : "";
    std::string what = row[1]   ? "Destination \"" + *row[1] + "\""
                       : row[2] ? "Topic \"" + *row[2] + "\" of " + of_route
                                : "R" + of_route.substr(1);
    findings->Warn("pause", what + " was paused by " + row[4].value() + ": " + row[3].value(),
                   row[2] ? "It stops no other topic. outbox.resume() with the same arguments lets it go."
                          : "outbox.resume() with the same arguments lets it go.");
  }
  CheckPausedKeys(findings);
}

namespace {

// ", 'topic'": one that a route writes to there, whose rights and room can be tried, too. "": it is not known.
std::string ATopicOf(const std::string& server) {
  const std::vector<Row> rows = RunSql(
      Access::kRead, "SELECT topic FROM outbox.route WHERE server = $1 AND topic !~ '[{}]' ORDER BY name LIMIT 1",
      {Cell(server)});
  return rows.empty() ? "" : ", " + Literal(rows[0][0].value());
}

// Servers that nothing goes to because they, or all routes to them, are paused.
std::set<std::string> ServersAtRest() {
  std::set<std::string> servers;
  for (const Row& row :
       RunSql(Access::kRead,
              "SELECT r.server::text FROM outbox.route r GROUP BY r.server HAVING bool_and(EXISTS (SELECT FROM "
              "outbox.pause p WHERE p.server = r.server OR (p.route_id = r.id AND p.topic IS NULL AND "
              "p.aggregate_type IS NULL)))")) {
    servers.insert(row[0].value());
  }
  return servers;
}

// What Redis servers have lost within the hour. A worker says so of its destination for as long as it lives and has a
// lane there; what the lanes noted outlives it. `told`: servers of which a worker has said it.
void TellLosses(const std::set<std::string>& told, Findings* findings) {
  for (const Row& row :
       RunSql(Access::kRead,
              "SELECT DISTINCT ON (r.server) r.server::text, r.name, a.detail ->> 'lane', a.reason, "
              "to_char(a.at AT TIME ZONE 'UTC', 'HH24:MI:SS'), count(*) OVER (PARTITION BY r.server) "
              "FROM outbox.audit a JOIN outbox_internal.route_names(now() - interval '1 hour') n ON n.name = a.route "
              "AND a.at BETWEEN n.since AND n.until JOIN outbox.route r ON r.id = n.route_id "
              "AND r.server::text = a.detail ->> 'server' "
              "WHERE a.action IN ('rewind', 'lost writes') AND a.at > now() - interval '1 hour' "
              "ORDER BY r.server, NOT a.detail ? 'missing_since', a.action <> 'lost writes', a.at DESC")) {
    if (told.contains(row[0].value())) {
      continue;
    }
    const std::string others = row[5] == "1" ? "" : " outbox.audit has " + row[5].value() + " such rows of this hour.";
    findings->Warn("destination",
                   "Destination \"" + row[0].value() + "\" has lost what it had acknowledged, LOST_WRITES: lane " +
                       row[2].value_or("?") + " of route \"" + row[1].value() + "\" found it at " + row[4].value() +
                       " UTC: " + row[3].value_or("") + "." + others,
                   "outbox.audit has what was lost of each lane, and what of it was not sent again (missing_since). "
                   "This goes after an hour.");
  }
}

// Of which lanes have lost something within the hour that is sent again, and others what is not.
std::set<std::string> ServersThatLack() {
  std::set<std::string> servers;
  for (const Row& row : RunSql(Access::kRead,
                               "SELECT r.server::text FROM outbox.audit a "
                               "JOIN outbox_internal.route_names(now() - interval '1 hour') n ON n.name = a.route "
                               "AND a.at BETWEEN n.since AND n.until JOIN outbox.route r ON r.id = n.route_id "
                               "AND r.server::text = a.detail ->> 'server' "
                               "WHERE a.action IN ('rewind', 'lost writes') AND a.at > now() - interval '1 hour' "
                               "GROUP BY 1 HAVING count(DISTINCT a.detail ? 'missing_since') > 1")) {
    servers.insert(row[0].value());
  }
  return servers;
}

// Destinations that became another cluster within the hour, whichever worker found it. `two`: those that are at two
// now, of which that is told.
void TellClusters(const std::set<std::string>& two, Findings* findings) {
  for (const Row& row :
       RunSql(Access::kRead,
              "SELECT s.srvname::text, m.cluster, m.former, to_char(m.met_at AT TIME ZONE 'UTC', 'HH24:MI:SS') "
              "FROM outbox_internal.met_cluster m JOIN pg_foreign_server s ON s.oid = m.server "
              "WHERE m.former IS NOT NULL AND m.met_at > now() - interval '1 hour' "
              "AND EXISTS (SELECT FROM outbox.route r WHERE r.server = s.srvname) ORDER BY s.srvname")) {
    if (!two.contains(row[0].value())) {
      findings->Warn(
          "destination",
          "Destination \"" + row[0].value() + "\" is another cluster since " + row[3].value() +
              " UTC, ANOTHER_CLUSTER: \"" + row[1].value() + "\", and before it was \"" + row[2].value() +
              "\"; what was delivered until then is in that one.",
          "Where consumers need that in the new one, outbox.seek() sends it again. This goes after an hour.");
    }
  }
}

}  // namespace

void CheckDestinations(Findings* findings) {
  // Each worker that uses a destination has a view of it, and may have met another error: one finding, of the worst.
  // One that is tried this moment, while another worker finds that it works, is told of once that has failed.
  struct Counted {
    int workers = 0;
    int work = 0;  // of these
  };
  std::map<std::string, Counted> counted;
  const std::vector<OwnedDestinationView> views = ReadDestinationViews(MyDatabaseId);
  for (const OwnedDestinationView& view : views) {
    Counted& of = counted[NameStr(view.name)];
    of.workers += view.owned;
    of.work += view.owned && view.state == BreakerState::kClosed;
  }
  const auto weight = [](const OwnedDestinationView& view) {
    return (view.only_warning ? 0 : 2) + (NeedsAPerson(view.trouble) ? 1 : 0);
  };
  std::map<std::string, OwnedDestinationView> worst;
  for (const OwnedDestinationView& view : views) {
    if (!view.owned || (view.state == BreakerState::kHalfOpen && counted[NameStr(view.name)].work > 0) ||
        (view.state == BreakerState::kClosed && !view.only_warning) ||
        (view.only_warning && std::strcmp(view.trouble.code, pg::kAnotherCluster) == 0)) {  // see TellClusters
      continue;
    }
    const auto [at, added] = worst.emplace(NameStr(view.name), view);
    if (!added && weight(view) > weight(at->second)) {
      at->second = view;
    }
  }
  const std::set<std::string> paused = ServersAtRest();
  const std::set<std::string> missing = ServersThatLack();
  std::set<std::string> lost;
  std::set<std::string> two;
  for (const auto& [name, view] : worst) {
    if (std::strcmp(view.trouble.code, "LOST_WRITES") == 0) {
      if (view.only_warning && missing.contains(name)) {
        continue;  // this worker may have met the one only, and the other is for a person: TellLosses() has it
      }
      lost.insert(name);
    }
    if (std::strcmp(view.trouble.code, pg::kTwoClusters) == 0) {
      two.insert(name);
    }
    const Counted& of = counted[name];
    const std::string from = of.work == 0 ? ""
                                          : " from " + std::to_string(of.workers - of.work) + " of " +
                                                std::to_string(of.workers) + " relay workers";
    const std::string detail =
        "Destination \"" + name + "\" " +
        (view.only_warning ? "works, but " : "gets nothing" + from + " (" + BreakerStateName(view.state) + "): ") +
        std::string(view.trouble.code) + ": " + view.trouble.message;
    const char* cure = CureOf(view.trouble);
    if (NeedsAPerson(view.trouble)) {
      findings->Problem("destination", detail, cure);
    } else {
      findings->Warn("destination", detail,
                     view.only_warning                       ? HintOfWarning(view.trouble.code)
                     : paused.contains(name)                 ? kPausedHint
                     : cure != nullptr                       ? cure
                     : view.state == BreakerState::kHalfOpen ? "It is being tried again by itself, right now."
                     : view.trouble.error_class == ErrorClass::kInternal
                         ? "It is tried again by itself; outbox.destination says when."
                         : "It is tried again by itself; outbox.destination says when. SELECT * FROM "
                           "outbox.test_server(" +
                               Literal(name) + ATopicOf(name) + ") says what can be done.");
    }
  }
  TellLosses(lost, findings);
  TellClusters(two, findings);
}

}  // namespace outbox::admin
