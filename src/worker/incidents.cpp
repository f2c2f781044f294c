#include "worker/incidents.h"

#include <algorithm>
#include <cstring>

#include "base/monotonic.h"
#include "base/utf8.h"
#include "pg/encoding.h"
#include "pg/guard.h"
#include "pg/log_line.h"
#include "pg/trouble_hints.h"
#include "relay/common/side_log.h"

namespace outbox::worker {

namespace {

// Microseconds.
constexpr int64_t kLasts = 1 * kSecond;  // shorter trouble is not reported: a sink process is back in a tenth of it
// A topic that works for less than this between two refusals was in trouble all the time: its side lanes try a little,
// come back, and are refused again while the destination recovers part by part.
constexpr int64_t kMoment = 1 * kSecond;
constexpr int64_t kChanged = 2 * kSecond;    // an error of another class lasts for so long before it is reported
constexpr int64_t kSayAgain = 60 * kSecond;  // between reports of another error, or of more dead letters
constexpr int64_t kGather = 10 * kSecond;    // between lines about topics of one route
constexpr const char* kLostWrites = "LOST_WRITES";
constexpr int64_t kRetries = -1;  // in the place of a route
constexpr size_t kFewTopics = 3;  // have a line each, and are named where there are more

// What was last done then (0: never) may be done again.
bool IsDue(int64_t last, int64_t every, int64_t now) {
  return last == 0 || now - last >= every;
}

// A text of the worker's (UTF-8) for the log of a server of any encoding. Topics may be made of keys, which hold
// anything.
std::string Loggable(const std::string& text) {
  std::string loggable = LegibleUtf8(text);
  if (!pg::SpeaksUtf8()) {
    pg::KeepAscii(loggable.data(), loggable.size());
  }
  return loggable;
}

std::string HintFor(const Error& error) {
  switch (error.error_class) {
    case ErrorClass::kConfig:
      if (error.code == pg::kNoStandby) {
        return pg::kNoStandbyHint;
      }
      if (error.code.starts_with(pg::kSinkCodes)) {
        return pg::SinkHint(error.message);
      }
      if (pg::IsOfTls(error.code)) {
        return pg::kTlsHint;
      }
      return "Correct an option of the server or of its user mapping, or the rights that it has there; see "
             "outbox.doctor().";
    case ErrorClass::kTopic:
      return std::string(pg::TopicHint(error.code)) + "; its events then follow by themselves. See outbox.lag.";
    case ErrorClass::kInternal:
      if (const char* known = pg::ServersHint(error.code, error.message)) {
        return known;
      }
      [[fallthrough]];
    default:
      return "It is tried again by itself; see outbox.destination and outbox.lag.";
  }
}

// Whether another worker of this database has warned of the same of that destination; else this worker has.
bool WarnedByAnother(pg::DestinationSlot* slot, const char* code) {
  if (slot == nullptr) {
    return false;
  }
  bool another = false;
  LWLockAcquire(pg::Shared()->lock, LW_EXCLUSIVE);
  for (int i = 0; i < pg::Shared()->max_destinations; i++) {
    const pg::DestinationSlot& other = pg::Destinations()[i];
    another = another || (&other != slot && other.database == slot->database && other.server == slot->server &&
                          strcmp(other.warned, code) == 0);
  }
  if (!another) {
    strlcpy(slot->warned, code, sizeof(slot->warned));
  }
  LWLockRelease(pg::Shared()->lock);
  return another;
}

// Of what a line speaks.
struct Subject {
  std::string destination = {};  // or
  std::string route = {};
  std::string topic = {};  // "": none, or many
};

Subject Loggable(const Subject& of) {
  return {Loggable(of.destination), Loggable(of.route), Loggable(of.topic)};
}

// `what` with its verb: destination "x" is, 5 topics of route "y" are.
void SayTrouble(const Subject& about, const std::string& what, const std::string& of, const Error& error,
                const char* effect) {
  const char* event = about.destination.empty() ? "topic_trouble" : "destination_trouble";
  const Subject fields = Loggable(about);
  const char* destination = fields.destination.c_str();
  const char* route = fields.route.c_str();
  const char* topic = fields.topic.c_str();
  const std::string subject = Loggable(what);
  const std::string owner = Loggable(of);
  const std::string message = Loggable(error.message);
  const std::string code = Loggable(error.code);
  const char* error_class = ErrorClassName(error.error_class);
  const std::string to_do = HintFor(error);
  const char* hint = to_do.c_str();
  const char* s = subject.c_str();
  const char* o = owner.c_str();
  const char* m = message.c_str();
  const char* c = code.c_str();
  pg::Guard([=] {
    ereport(WARNING,
            (errmsg("outbox: %s in trouble: %s", s, m),
             errdetail("The error%s is %s, of class \"%s\". %s", o, c, error_class, effect), errhint("%s", hint),
             pg::LogEvent(event, {{"destination", destination},
                                  {"route", route},
                                  {"topic", topic},
                                  {"error_class", error_class},
                                  {"error_code", c}})));
  });
}

// `what` with its verb, as above.
void SayBack(const Subject& about, const std::string& what, const PastTrouble& over, int64_t now) {
  const char* event = about.destination.empty() ? "topic_works" : "destination_works";
  const Subject fields = Loggable(about);
  const char* destination = fields.destination.c_str();
  const char* route = fields.route.c_str();
  const char* topic = fields.topic.c_str();
  const std::string subject = Loggable(what);
  const char* s = subject.c_str();
  const double seconds = static_cast<double>(over.lasted) / kSecond;
  const PastTrouble* past = &over;
  const bool doubted = over.code == kLostWrites;
  pg::Guard([=] {
    ereport(LOG, (errmsg("outbox: %s again after %.1f s", s, seconds),
                  doubted ? errdetail("Each lane that it has lost something of says so in a line of its own.")
                          : DetailOfEnd(*past, now),
                  pg::LogEvent(event, {{"destination", destination},
                                       {"route", route},
                                       {"topic", topic},
                                       {"seconds", psprintf("%.1f", seconds)}})));
  });
}

void SayUnused(const std::string& destination, const std::string& what) {
  const std::string name = Loggable(destination);
  const char* n = name.c_str();
  const std::string subject = Loggable(what);
  const char* s = subject.c_str();
  pg::Guard([=] {
    ereport(LOG,
            (errmsg("outbox: %s is used by no route of this worker any more, and its trouble not followed further", s),
             pg::LogEvent("destination_unused", {{"destination", n}})));
  });
}

// `what` with its verb, as above.
void SayUnusedTopic(const Subject& about, const std::string& what) {
  const Subject fields = Loggable(about);
  const char* route = fields.route.c_str();
  const char* topic = fields.topic.c_str();
  const std::string subject = Loggable(what);
  const char* s = subject.c_str();
  pg::Guard([=] {
    ereport(LOG, (errmsg("outbox: %s not used by it any more, and the trouble not followed further", s),
                  pg::LogEvent("topic_unused", {{"route", route}, {"topic", topic}})));
  });
}

// `why`: "" where it is not known.
void SayDeaths(const std::string& destination, int64_t deaths, const std::string& why) {
  const std::string name = Loggable(destination);
  const std::string message = Loggable(why.empty() ? why : ": " + why);
  const char* n = name.c_str();
  const char* m = message.c_str();
  const auto count = static_cast<long long>(deaths);
  pg::Guard([=] {
    ereport(LOG,
            (count == 1 ? errmsg("outbox: a sink process of destination \"%s\" ended unasked%s", n, m)
                        : errmsg("outbox: %lld sink processes of destination \"%s\" ended unasked, one after another%s",
                                 count, n, m),
             errdetail("What it had, and had not answered for, is sent again by a new one, in order: some of it may "
                       "arrive twice, with equal ids."),
             pg::LogEvent("sink_ended", {{"destination", n}, {"count", psprintf("%lld", count)}})));
  });
}

std::string NameTopic(const std::string& route, const std::string& topic) {
  return topic.empty() ? "route \"" + route + "\"" : "topic \"" + topic + "\" of route \"" + route + "\"";
}

// 50 topics of route "x" (such as "a", "b" and "c")
template <typename Lines>
std::string NameMany(const std::string& route, const Lines& lines) {
  std::string names;
  for (size_t i = 0; i < kFewTopics; i++) {
    names += (i == 0 ? "\"" : i + 1 == kFewTopics ? "\" and \"" : "\", \"") + lines[i].topic;
  }
  return std::to_string(lines.size()) + " topics of route \"" + route + "\" (such as " + names + "\")";
}

}  // namespace

// Whether that error is to be said now. Another class is another thing to do for somebody, so it is said soon, and
// again within the minute only if it was not yet: what goes to and fro has as many lines a minute as there are classes.
bool Incidents::IsNews(const Episode& episode, const Error& error, int64_t now) {
  if (episode.said_at == 0) {
    return now - episode.outages.began() >= kLasts;
  }
  if (error.error_class != episode.said) {
    const auto last = episode.said_of.find(error.error_class);
    return now - episode.now_since >= kChanged && (last == episode.said_of.end() || now - last->second >= kSayAgain);
  }
  return error.code != episode.code && now - episode.said_at >= kSayAgain;
}

// `moment`: less of it without an error is no end.
Incidents::Line Incidents::See(Episode* episode, const Error* error, int64_t moment, int64_t now) {
  episode->seen = true;
  if (error == nullptr) {
    episode->outages.SeeNone(now);
    return episode->said_at != 0 && episode->outages.Over(now) ? Line::kBack : Line::kNone;
  }
  episode->outages.SeeTrouble(now, moment);
  if (error->error_class != episode->now) {
    episode->now = error->error_class;
    episode->now_since = now;
  }
  if (!IsNews(*episode, *error, now)) {
    return Line::kNone;
  }
  episode->said_at = now;
  episode->code = error->code;
  episode->said = error->error_class;
  episode->said_of[error->error_class] = now;
  return Line::kTrouble;
}

// The episode with that key; begins one if there is trouble. nullptr: all is well.
Incidents::Episode* Incidents::Find(const Key& key, const std::string& what, const Error* error, int64_t now) {
  auto found = episodes_.find(key);
  if (found == episodes_.end() && error != nullptr) {
    found = episodes_.emplace(key, Episode()).first;
    found->second.what = what;
    found->second.outages = Outages(now);
    found->second.trouble = TroubleBoard::Name(key.first, key.second);
  }
  return found == episodes_.end() ? nullptr : &found->second;
}

// It is over for this worker: whether that is to be said.
bool Incidents::End(const Episode& episode) const {
  return episode.said_at != 0 && board_.End(episode.trouble);
}

// One at once, those of the next minute together, and those while trouble is `told` of when that is over.
void Incidents::SeeDeaths(const relay::DestinationStatus& status, const std::string& server, bool told, int64_t now) {
  if (status.deaths == 0 && !deaths_.contains(server)) {
    return;
  }
  Deaths& deaths = deaths_[server];
  if (status.deaths < deaths.seen) {
    deaths.seen = deaths.said = 0;  // the destination was let go meanwhile, and counts anew
  }
  if (status.deaths != deaths.seen) {
    deaths.last = status.reason.code.starts_with("SINK_") ? status.reason.message : std::string();
    deaths.seen = status.deaths;
  }
  if (!told && deaths.said != deaths.seen && IsDue(deaths.said_at, kSayAgain, now)) {
    SayDeaths(server, deaths.seen - deaths.said, deaths.last);
    deaths.said = deaths.seen;
    deaths.said_at = now;
  }
}

// Nobody waits for a destination that is paused: trouble that begins meanwhile is not told of before that is over.
void Incidents::SeeDestination(const relay::DestinationStatus& status, const std::string& server, bool paused,
                               int64_t now) {
  const Key key{0, server};
  const auto known = episodes_.find(key);
  const bool told = known != episodes_.end() && known->second.said_at != 0;
  const Error* error = status.reason.ok() || (paused && !told) ? nullptr : &status.reason;
  Episode* episode = Find(key, "destination \"" + server + "\"", error, now);
  SeeDeaths(status, server, episode != nullptr && episode->said_at != 0, now);
  if (episode == nullptr) {
    return;
  }
  switch (See(episode, error, 0, now)) {
    case Line::kTrouble:
      if (board_.MaySay(episode->trouble, *error, now, kSayAgain, error->code == kLostWrites)) {
        SayTrouble({.destination = server}, episode->what + " is", "", *error,
                   error->error_class == ErrorClass::kInternal
                       ? "Its events stay in the log and are sent when that is over."
                       : "Its events stay in the log and are sent when it answers again.");
      }
      break;
    case Line::kBack:
      if (End(*episode)) {
        SayBack({.destination = server}, episode->what + " works", episode->outages.Past(episode->code), now);
      }
      episodes_.erase(key);
      break;
    case Line::kNone:
      if (episode->said_at == 0 && error == nullptr) {
        episodes_.erase(key);
      }
      break;
  }
}

void Incidents::SeeLane(const relay::LaneStatus& status, const log::Route& route, int64_t now) {
  const Lane lane{status.id.route_id, status.id.lane};
  if (const auto had = troubled_.find(lane); had != troubled_.end()) {
    had->second = true;
  }
  if (status.state == LaneState::kPaused) {
    if (const auto route_episode = episodes_.find({lane.first, ""}); route_episode != episodes_.end()) {
      static_cast<void>(End(route_episode->second));  // nobody tries, so nobody knows whether it would work
      episodes_.erase(route_episode);
    }
  }
  if (status.error != nullptr) {
    const bool of_topic = status.error_topic != nullptr && status.error->code != pg::kNoStandby;
    SeeTopic(lane, of_topic ? *status.error_topic : std::string(), *status.error, route, now);
  }
  for (const relay::TroubledTopic& parked : status.parked_topics) {
    SeeTopic(lane, *parked.topic, *parked.error, route, now);
  }
}

// The same topic may be in trouble in another lane: over when it is in none, see EndTurn().
void Incidents::SeeTopic(const Lane& lane, const std::string& topic, const Error& error, const log::Route& route,
                         int64_t now) {
  // One that an operator has paused is not in trouble. Missing standbys are nobody else's to tell of.
  if ((error.error_class != ErrorClass::kTopic && error.code != pg::kNoStandby) || error.code == relay::kPausedCode) {
    KeepTopic(lane, topic, error);
    return;
  }
  Episode* episode = Find({lane.first, topic}, route.name, &error, now);
  episode->lane = lane;
  if (episode->outages.began() == now) {  // an event may have brought the topic along
    episode->named = !topic.empty() && format::MayGiveTopic(route.config, topic);
  }
  troubled_[lane] = true;
  if (See(episode, &error, kMoment, now) == Line::kTrouble && board_.MaySay(episode->trouble, error, now, kSayAgain)) {
    Topics& topics = topics_[lane.first];
    topics.route = route.name;
    topics.trouble.push_back({topic, error, {}});
  }
}

// What is tried of a topic in trouble may meet trouble of the destination, or of the lane with its tables, and with the
// topic again: nothing was delivered between, so its own has not ended. Where no topic is named it is that of one lane.
void Incidents::KeepTopic(const Lane& lane, const std::string& topic, const Error& error) {
  const auto found = episodes_.find({lane.first, topic});
  if (found != episodes_.end() && found->second.outages.in_trouble() && found->second.now == ErrorClass::kTopic &&
      error.code != relay::kPausedCode && (!topic.empty() || found->second.lane == lane)) {
    found->second.seen = true;
    found->second.lane = lane;
    troubled_[lane] = true;
  }
}

void Incidents::SayWarning(const std::string& server, const Error& warning) {
  const std::string name = Loggable(server);
  const std::string message = Loggable(warning.message);
  const std::string code = Loggable(warning.code);
  const char* n = name.c_str();
  const char* m = message.c_str();
  const char* c = code.c_str();
  const char* hint = warning.code == pg::kOffsetsWentBack
                         ? pg::kOffsetsWentBackHint
                         : "Events go on; outbox.destination and outbox.doctor() show it while it lasts.";
  pg::Guard([=] {
    ereport(WARNING,
            (errmsg("outbox: destination \"%s\" is used, but %s", n, m), errdetail("The warning is %s.", c),
             errhint("%s", hint), pg::LogEvent("destination_warning", {{"destination", n}, {"error_code", c}})));
  });
}

void Incidents::SeeWarning(const Error& warning, const std::string& server, pg::DestinationSlot* slot) {
  // What is lost is lost: each time, and each worker has partitions of its own to tell of.
  const bool each = warning.code == pg::kOffsetsWentBack;
  if (!warning.ok() && warned_.insert({server, each ? warning.message : warning.code}).second &&
      (each || !WarnedByAnother(slot, warning.code.c_str()))) {
    SayWarning(server, warning);
  }
}

// Where it ends because nothing is tried any more, nobody knows whether it would go.
void Incidents::SeeRetries(const relay::DestinationStatus& status, const std::string& server, int64_t now) {
  const Key key{kRetries, server};
  const Error* error = status.retry_trouble;
  Episode* episode = Find(key, "what is tried again at destination \"" + server + "\" goes", error, now);
  if (episode == nullptr) {
    return;
  }
  if (error != nullptr && episode->said_at == 0) {
    episode->outages = Outages(status.retry_trouble_since);
  }
  const Line line = See(episode, error, 0, now);
  if (line == Line::kTrouble && board_.MaySay(episode->trouble, *error, now, kSayAgain)) {
    SayWarning(server, *error);
  } else if (line == Line::kBack || (error == nullptr && !status.retries_work)) {
    if (End(*episode) && line == Line::kBack) {
      SayBack({.destination = server}, episode->what, episode->outages.Past(episode->code), now);
    }
    episodes_.erase(key);
  }
}

// Few topics have a line each, with their own error; of many the first stands for all.
void Incidents::SayTopics(Topics* topics, int64_t now) {
  if (!topics->trouble.empty() && IsDue(topics->trouble_at, kGather, now)) {
    const std::vector<Topics::Line> lines = std::exchange(topics->trouble, {});
    topics->trouble_at = now;
    if (lines.size() > kFewTopics) {
      SayTrouble({.route = topics->route}, NameMany(topics->route, lines) + " are", " of the first", lines[0].error,
                 "Their events stay in the log and are sent when the topics take them again.");
    } else {
      for (const Topics::Line& line : lines) {
        SayTrouble(
            {.route = topics->route, .topic = line.topic}, NameTopic(topics->route, line.topic) + " is", "", line.error,
            line.error.code == pg::kNoStandby ? "Its events stay in the log and are sent when the standbys have them."
                                              : "Its events stay in the log and are sent when it takes them again.");
      }
    }
  }
  if (!topics->back.empty() && topics->trouble.empty() && IsDue(topics->back_at, kGather, now)) {
    const std::vector<Topics::Line> lines = std::exchange(topics->back, {});
    topics->back_at = now;
    PastTrouble all;
    for (const Topics::Line& line : lines) {
      const PastTrouble& over = line.over;
      all.lasted = std::max(all.lasted, over.lasted);
      all.ended = std::max(all.ended, over.ended);
      if (lines.size() <= kFewTopics) {
        SayBack({.route = topics->route, .topic = line.topic}, NameTopic(topics->route, line.topic) + " works", over,
                now);
      }
    }
    if (lines.size() > kFewTopics) {
      SayBack({.route = topics->route}, NameMany(topics->route, lines) + " work", all, now);
    }
  }
}

void Incidents::SayUnusedTopics(Topics* topics, int64_t now) {
  if (topics->unused.empty() || !IsDue(topics->unused_at, kGather, now)) {
    return;
  }
  const std::vector<Topics::Line> lines = std::exchange(topics->unused, {});
  topics->unused_at = now;
  if (lines.size() > kFewTopics) {
    SayUnusedTopic({.route = topics->route}, NameMany(topics->route, lines) + " are");
    return;
  }
  for (const Topics::Line& line : lines) {
    SayUnusedTopic({.route = topics->route, .topic = line.topic}, NameTopic(topics->route, line.topic) + " is");
  }
}

// Whether its route, which gave the topic its name, sends nothing there any more.
bool Incidents::Unused(const Key& key, const Episode& episode, const std::map<int64_t, log::Route>& routes) {
  const auto route = routes.find(key.first);
  return episode.named && route != routes.end() && !format::MayGiveTopic(route->second.config, key.second);
}

void Incidents::NoteOver(const Key& key, const Episode& episode, bool unused) {
  Topics& topics = topics_[key.first];  // may be a new one: it is let go between two lines
  topics.route = episode.what;
  (unused ? topics.unused : topics.back).push_back({key.second, {}, episode.outages.Past(episode.code)});
}

void Incidents::EndTurn(const std::map<int64_t, log::Route>& routes, int64_t now) {
  for (auto entry = episodes_.begin(); entry != episodes_.end();) {
    Episode& episode = entry->second;
    const bool seen = std::exchange(episode.seen, false);
    if (entry->first.first <= 0) {  // a destination: SeeDestination, SeeRetries report the end of its trouble
      if (!seen && End(episode) && entry->first.first == 0) {
        SayUnused(entry->first.second, episode.what);
      }
      entry = seen ? std::next(entry) : episodes_.erase(entry);
      continue;
    }
    // A lane whose route takes other events by now leaves, and may come back with what is parked of the topic.
    const bool unused = !seen && Unused(entry->first, episode, routes);
    if (const auto lane = troubled_.find(episode.lane);
        !seen && !unused && (lane == troubled_.end() || !lane->second)) {
      static_cast<void>(End(episode));  // whether the topic works is another worker's to say, or nobody's
      entry = episodes_.erase(entry);
      continue;
    }
    if (!seen) {
      episode.outages.SeeNone(now);
    }
    const bool over = !episode.outages.in_trouble() && (episode.said_at == 0 || episode.outages.Over(now));
    if (over && End(episode)) {
      NoteOver(entry->first, episode, unused);
    }
    entry = over ? episodes_.erase(entry) : std::next(entry);
  }
  for (auto lane = troubled_.begin(); lane != troubled_.end();) {
    lane = std::exchange(lane->second, false) ? std::next(lane) : troubled_.erase(lane);
  }
  for (auto route = topics_.begin(); route != topics_.end();) {
    Topics& topics = route->second;
    SayTopics(&topics, now);
    SayUnusedTopics(&topics, now);
    const bool done = topics.trouble.empty() && topics.back.empty() && topics.unused.empty() &&
                      now - std::max({topics.trouble_at, topics.back_at, topics.unused_at}) >= kGather;
    route = done ? topics_.erase(route) : std::next(route);
  }
}

void Incidents::SeeDeadLetters(parked::DeadLetters* dead, int64_t route_id, const std::string& route, int64_t now) {
  auto found = dead->of_route.find(route_id);
  if (found == dead->of_route.end()) {
    return;
  }
  DeadSaid& said = dead_said_[route_id];
  if (found->second.events != said.events) {
    said.events = found->second.events;
    said.last_at = now;
  }
  if (!IsDue(said.at, kSayAgain, now)) {
    return;
  }
  // What waited for its minute may have been sent again since.
  char age[64] = "";
  if (now - said.last_at >= kSecond) {
    pg_snprintf(age, sizeof(age), ", %.1f s before this line,", static_cast<double>(now - said.last_at) / kSecond);
  }
  said = {.at = now};
  const std::string name = Loggable(route);
  const std::string message = Loggable(found->second.last.message);
  const std::string code = Loggable(found->second.last.code);
  const long long events = found->second.events;
  const char* n = name.c_str();
  const char* m = message.c_str();
  const char* c = code.c_str();
  const char* a = age;
  dead->of_route.erase(found);
  pg::Guard([=] {
    ereport(WARNING,
            (errmsg_plural("outbox: %lld event of route \"%s\" became a dead letter",
                           "outbox: %lld events of route \"%s\" became dead letters", events, events, n),
             errdetail("The last error%s is %s: %s", a, c, m),
             errhint("See outbox.dead_letter; outbox.retry() sends one again, outbox.redrive() many."),
             pg::LogEvent("dead_letters", {{"route", n}, {"events", pg::LogNumber(events)}, {"error_code", c}})));
  });
}

}  // namespace outbox::worker
