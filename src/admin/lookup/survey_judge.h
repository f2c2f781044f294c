// Judges rows of the log for all lanes at once [P]: which lanes, or side lanes, each waits for, counted by lane. The
// part of a survey (survey.h) that says what a row means; which rows are looked at is the survey's affair. What is not
// due (deliver_at) does not wait.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/lookup/route_lanes.h"
#include "base/due_counts.h"
#include "log/window/window_scan.h"

namespace outbox::admin {

// What was found for one lane or side lane.
struct SurveyCount {
  int64 walked = 0;
  int64 sampled = 0;  // in the part of the log that is sampled just now
  double estimated = 0;
  int64 oldest = 0;  // since when the first of them has waited, Unix microseconds; 0: none does
  bool more = false;
  int64 unseen = 0;
  bool unreadable = false;  // a damaged table of the log may hold more
  DueCounts later;          // walked, and not due

  void See(int64 since) { oldest = oldest == 0 || since < oldest ? since : oldest; }
};

// Rows are handed to it under pg::Guard: it calls nothing of PostgreSQL.
class SurveyJudge final : public log::RowVisitor {
 public:
  struct Lane {
    const LaneRecord* record;
    size_t number;  // of its count; those of its side lanes follow
  };
  struct Route {
    int64 id;
    const format::RouteSpec* spec;
    bool parks;                   // it has parked something
    std::vector<Lane> by_number;  // record nullptr: not asked for
  };

  struct Limits {
    size_t candidates;  // of routes that park, the first so many are looked up among the parked ones: CountCandidates()
    bool later;         // what is not due is counted, by when it is
  };

  // What `routes` point to outlives it. So many `counts` there are; `now` by the wall clock.
  SurveyJudge(std::vector<Route> routes, size_t counts, const Limits& limits, int64 now)
      : counts(counts), routes_(std::move(routes)), limits_(limits), now_(now) {}

  size_t routes() const { return routes_.size(); }

  void Row(const log::RowView& row, uint64_t) override;
  // Counts those of the candidates that are not parked. Throws PgError.
  void CountCandidates();

  bool sampling = false;  // what is seen now is a sample
  size_t judgments = 0;   // of a row for a lane that may want it
  std::vector<SurveyCount> counts;

 private:
  using Types = std::pair<std::string, std::string>;
  // An event that may be parked as well.
  struct Candidate {
    size_t number;
    int64 route_id;
    int64 created_at;
    int64 deliver_at;
    Uuid id;
  };

  void CountWalked(size_t number, int64 created_at, int64 deliver_at);

  const std::vector<const Route*>& WantedBy(std::string_view aggregate_type, std::string_view event_type);
  // Which of the candidates are parked, ascending.
  std::vector<size_t> FindParked() const;

  const std::vector<Route> routes_;
  const Limits limits_;
  const int64 now_;
  std::vector<Candidate> candidates_;
  std::map<Types, std::vector<const Route*>> types_;
  const std::pair<const Types, std::vector<const Route*>>* last_ = nullptr;
};

// Routes that have parked something, ascending. Throws PgError.
std::vector<int64> ParkingRoutes();

}  // namespace outbox::admin
