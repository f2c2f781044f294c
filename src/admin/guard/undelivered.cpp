#include "admin/guard/undelivered.h"

#include <map>
#include <vector>

#include "admin/common/query.h"
#include "admin/lookup/backlog.h"
#include "admin/lookup/open_emitters.h"
#include "admin/lookup/parked_counts.h"
#include "admin/lookup/route_lanes.h"
#include "base/count_text.h"
#include "base/version.h"
#include "pg/subtransaction.h"
#include "pg/trouble_hints.h"

extern "C" {
#include "utils/builtins.h"
}

namespace outbox::admin {

std::string Counted(int64 count, bool capped, const char* what) {
  return (capped ? "at least " : "") + std::to_string(count) + " " + what;
}

namespace {

// How many events are read for each route: a few milliseconds; if none of these is the route's, up to kLagScanLimit, a
// few tenths of a second.
constexpr int64 kFirstScan = 10000;

// What a route wants that cannot work is unknown: all that is behind its lanes counts.
bool AnyAfter(const std::vector<LaneRecord>& lanes, const char* table) {
  uint64 next = UINT64_MAX;
  for (const LaneRecord& lane : lanes) {
    next = Min(next, lane.position.base.xmin);
  }
  const std::string sql = std::string("SELECT FROM ") + table + " AS l WHERE xid >= $1::xid8 LIMIT 1";
  return !RunSql(Access::kRead, sql.c_str(), {Cell(std::to_string(next))}, Plan::kIndexOrder).empty();
}

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
      for (const LaneBacklog& backlog : CountBacklog(
               lanes, Access::kRead, {.limit = limit, .table = table, .own = true, .removed_by = question.gone})) {
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
      parts.push_back(Counted(count, parked.capped && count >= kParkedCountLimit, state));
    }
  }
  if (parts.empty()) {
    return;
  }
  loss->any = true;
  if (parked.dead > 0) {
    parts.push_back(Counted(parked.dead, parked.capped && parked.dead >= kParkedCountLimit,
                            parked.dead == 1 ? "dead letter" : "dead letters"));
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

Loss Find(const Question& question) {
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
    loss.text += "; and " + CountText(told - kRoutesTold, "more route");
  }
  loss.text += loss.text.empty() ? "" : ".";
  const int64 open = question.routes_go ? OpenEmitters() : 0;
  if (open > 0) {
    loss.any = true;
    loss.text += (loss.text.empty() ? "" : " ") + TellOpenEmitters(open) + ".";
  }
  return loss;
}

bool HasRows(const std::string& table) {
  return !RunSql(Access::kRead, ("SELECT FROM " + table + " LIMIT 1").c_str()).empty();
}

// In whatever schema that version has it.
std::string Qualified(const char* table) {
  return pg::Guard([table]() -> const char* {
    return quote_qualified_identifier(get_namespace_name(get_rel_namespace(pg::FindOurRelation(table))), table);
  });
}

Loss FindUncounted(const Question& question, const std::string& version) {
  Loss loss;
  loss.uncounted =
      "ALTER EXTENSION outbox UPDATE, or restart the server after installing the new library; it is counted then.";
  loss.text = "The extension has version \"" + version + "\", the library \"" + kVersion +
              "\": how far events were delivered is known once they are equal.";
  const Cell route = question.route_id == kEverything ? Cell() : Cell(std::to_string(question.route_id));
  const bool routes = !RunSql(Access::kRead,
                              "SELECT FROM outbox.route WHERE server = coalesce($1::name, server) "
                              "AND id = coalesce($2::bigint, id) LIMIT 1",
                              {question.server == nullptr ? Cell() : Cell(question.server), route})
                           .empty();
  loss.any = routes && (question.gone != nullptr    ? true
                        : question.table != nullptr ? HasRows(question.table)
                                                    : HasRows(Qualified("log")) || HasRows(Qualified("parked")));
  return loss;
}

Loss Unread(const Error& error) {
  Loss loss;
  loss.any = true;
  loss.uncounted = pg::kUnreadableHint;
  loss.text = "How many is not known, because not all can be read: " + error.message + " (" + error.code + ").";
  return loss;
}

}  // namespace

Loss FindLoss(const Question& question) {
  const char* version = pg::Guard([] { return OtherVersion(); });
  return AtLatestSnapshot([&question, version] {
    Loss loss;
    const Status status = pg::TryPart(
        pg::IsUnreadable, [&] { loss = version == nullptr ? Find(question) : FindUncounted(question, version); });
    return status.ok() ? loss : Unread(status.error());
  });
}

std::string UndeliveredTo(const char* server) {
  return FindLoss({.server = server}).text;
}

}  // namespace outbox::admin
