#include "admin/lookup/survey.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include "admin/lookup/survey_judge.h"
#include "admin/lookup/survey_sample.h"
#include "admin/lookup/transaction_times.h"
#include "log/window/snapshots.h"
#include "log/window/window_scan.h"
#include "pg/subtransaction.h"
#include "pg/wall.h"

namespace outbox::admin {

namespace {

// Rows of one slice of a walk: after each it is seen whether it has cost enough.
constexpr size_t kSlice = 4096;
constexpr size_t kLeastSlice = 16;
// A sample costs about as much as what is walked may.
constexpr size_t kRowsOfPage = 20;  // about
constexpr size_t kLeastPages = 2;

// Where lanes stand, each once; of many only those before which most was written.
std::vector<const Snapshot*> Cuts(const std::vector<const Snapshot*>& stands, size_t most) {
  std::vector<const Snapshot*> cuts = stands;
  std::sort(cuts.begin(), cuts.end(), [](const auto* a, const auto* b) { return Earlier(*a, *b); });
  cuts.erase(std::unique(cuts.begin(), cuts.end(), [](const auto* a, const auto* b) { return *a == *b; }), cuts.end());
  if (cuts.size() <= most) {
    return cuts;
  }
  std::vector<size_t> order(cuts.size() - 1);
  std::iota(order.begin(), order.end(), 1);
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(most - 1), order.end(),
      [&](size_t a, size_t b) { return cuts[a]->xmax - cuts[a - 1]->xmax > cuts[b]->xmax - cuts[b - 1]->xmax; });
  order.resize(most - 1);
  order.push_back(0);
  std::sort(order.begin(), order.end());
  std::vector<const Snapshot*> chosen;
  chosen.reserve(order.size());
  for (size_t i : order) {
    chosen.push_back(cuts[i]);
  }
  return chosen;
}

class Surveyor {
 public:
  Surveyor(const std::vector<LaneRecord>& lanes, const LogEstimate& log, const SurveyLimits& limits,
           const Snapshot* until)
      : lanes_(lanes), log_(log), limits_(limits), until_(until) {}

  std::vector<LaneWaiting> Run() {
    Prepare();
    if (!stands_.empty()) {
      if (until_ != nullptr) {
        now_ = *until_;
      } else {
        pg::Guard([this] { log::ReadActiveSnapshot(&now_); });
      }
      ListTables();
      const std::vector<const Snapshot*> cuts = Cuts(stands_, limits_.segments);
      std::vector<Segment> segments(cuts.size());  // the last first
      for (size_t i = 0; i < cuts.size(); i++) {
        const size_t at = cuts.size() - 1 - i;
        segments[i].window.Set(*cuts[at], i > 0 ? *cuts[at + 1] : now_);
      }
      std::erase_if(segments, [](const Segment& segment) { return segment.window.xids.empty(); });
      WalkAll(&segments);
      for (Segment& segment : segments) {
        Finish(&segment, segments.size());
      }
      judge_->CountCandidates();
    }
    return Result();
  }

 private:
  void Prepare() {
    std::vector<SurveyJudge::Route> routes;
    const std::vector<int64> parking = limits_.parked == 0 ? std::vector<int64>() : ParkingRoutes();
    size_t number = 0;
    for (const LaneRecord& lane : lanes_) {
      numbers_.push_back(number);
      number += 1 + lane.sides.size();
      if (lane.spec == nullptr || static_cast<uint32>(lane.lane) >= lane.spec->lanes()) {
        continue;
      }
      if (routes.empty() || routes.back().id != lane.route_id) {
        routes.push_back({lane.route_id, lane.spec.get(),
                          std::binary_search(parking.begin(), parking.end(), lane.route_id),
                          std::vector<SurveyJudge::Lane>(lane.spec->lanes(), SurveyJudge::Lane{nullptr, 0})});
      }
      routes.back().by_number[static_cast<size_t>(lane.lane)] = {&lane, numbers_.back()};
      stands_.push_back(&lane.position.base);
      for (const SideRecord& side : lane.sides) {
        stands_.push_back(&side.position.base);
      }
    }
    judge_.emplace(std::move(routes), number, SurveyJudge::Limits{limits_.parked, limits_.later},
                   pg::Guard([] { return pg::BelievedWall(); }));
  }

  void ListTables() {
    for (int i = 0; i < log_.count; i++) {
      const LogEstimate::Table& table = log_.tables[i];
      if (table.readable && table.blocks > 0) {
        days::LogTableEntry entry;
        entry.oid = table.oid;
        entry.closed = table.indexed;
        entry.largest_xid = table.largest_xid;
        leaves_.tables.push_back(entry);
        tables_.push_back(&table);
      }
    }
  }

  // A part of the log, for lanes that stand where it begins, or within it, or before.
  struct Segment {
    log::WindowBounds window;
    log::ScanState state;
    log::Scanned scanned = log::Scanned::kMore;
    size_t judgments = 0;  // that its rows took
  };

  // About how many rows take that many judgments: a row may have to be judged for a thousand routes.
  size_t RowsFor(size_t judgments, const Segment& segment) const {
    const size_t each = segment.state.looked == 0 ? judge_->routes() : segment.judgments / segment.state.looked;
    return judgments / Max(each, size_t{1});
  }

  // Each has its share, so that a long one hides no other; then what those have left goes to those that need more.
  void WalkAll(std::vector<Segment>* segments) {
    size_t rows = limits_.rows;
    for (const bool share : {true, false}) {
      for (size_t i = 0; i < segments->size(); i++) {
        Segment& segment = (*segments)[i];
        const size_t among = share ? segments->size() - i : 1;
        const uint64 before = segment.state.looked;
        const size_t judgments = limits_.judgments - Min(limits_.judgments, judge_->judgments);
        Walk(&segment, rows / among, judgments / among);
        rows -= Min(rows, static_cast<size_t>(segment.state.looked - before));
      }
    }
  }

  // Looks at up to so many rows more, about, which take up to so many judgments.
  void Walk(Segment* segment, size_t rows, size_t judgments) {
    log::ScanState& state = segment->state;
    judge_->sampling = false;
    pg::Guard([&] {
      for (uint64 looked = 0; segment->scanned == log::Scanned::kMore && looked < rows && judgments > 0;) {
        const size_t slice = Min(Min(kSlice, rows - looked), Max(RowsFor(judgments, *segment), kLeastSlice));
        const size_t judged = judge_->judgments;
        const uint64 before = state.looked;
        segment->scanned = log::ScanWindow(segment->window, PG_INT64_MIN, leaves_, slice, &state, &*judge_);
        const size_t took = judge_->judgments - judged;
        segment->judgments += took;
        judgments -= Min(judgments, took);
        looked += state.looked - before;
      }
    });
  }

  // Of what was not walked, a sample of `among` equal ones.
  void Finish(Segment* segment, size_t among) {
    const bool more = segment->scanned == log::Scanned::kMore;
    if (!more && log_.whole()) {
      return;
    }
    if (more) {
      const size_t affordable = RowsFor(limits_.judgments / among, *segment) / kRowsOfPage;
      SurveySample(&tables_, &*judge_)
          .Take(segment->window, segment->state,
                Min((limits_.pages + among - 1) / among, Max(affordable, kLeastPages)));
    }
    MarkUnseen(segment->window, segment->state);
  }

  void MarkUnseen(const log::WindowBounds& window, const log::ScanState& state) {
    uint64 walked = window.xids.begin;
    if (state.part > 0) {
      walked = window.xids.end;  // but for some that were open when it began
    } else if (state.inside) {
      walked = state.xid;
    }
    const auto mark = [&](const Position& position, SurveyCount* count) {
      if (!position.base.Covers(window.to)) {
        count->more = true;
        count->unreadable = count->unreadable || log_.damaged_to() >= position.base.xmin;
        const int64 at = times_.Of(Max(walked, position.base.xmax));
        count->unseen = count->unseen == 0 || (at != 0 && at < count->unseen) ? at : count->unseen;
      }
    };
    for (size_t i = 0; i < lanes_.size(); i++) {
      if (lanes_[i].spec != nullptr) {
        mark(lanes_[i].position, &judge_->counts[numbers_[i]]);
        for (size_t s = 0; s < lanes_[i].sides.size(); s++) {
          mark(lanes_[i].sides[s].position, &judge_->counts[numbers_[i] + 1 + s]);
        }
      }
    }
  }

  std::vector<LaneWaiting> Result() const {
    const auto waiting = [](const SurveyCount& count) {
      return Waiting{count.walked + static_cast<int64>(std::llround(count.estimated)),
                     count.oldest,
                     count.more,
                     count.more ? count.unseen : 0,
                     count.later,
                     count.unreadable};
    };
    std::vector<LaneWaiting> result;
    for (size_t i = 0; i < lanes_.size(); i++) {
      LaneWaiting& lane = result.emplace_back();
      lane.own = waiting(judge_->counts[numbers_[i]]);
      for (size_t s = 0; s < lanes_[i].sides.size(); s++) {
        lane.sides.push_back(waiting(judge_->counts[numbers_[i] + 1 + s]));
      }
    }
    return result;
  }

  const std::vector<LaneRecord>& lanes_;
  const LogEstimate& log_;
  const SurveyLimits limits_;
  const Snapshot* const until_;
  std::vector<size_t> numbers_;  // of the lanes' counts
  std::vector<const Snapshot*> stands_;
  Snapshot now_;
  days::LogTableList leaves_;
  std::vector<const LogEstimate::Table*> tables_;  // those of leaves_
  TransactionTimes times_{&tables_};
  std::optional<SurveyJudge> judge_;
};

}  // namespace

bool Earlier(const Snapshot& a, const Snapshot& b) {
  return a.xmax != b.xmax ? a.xmax < b.xmax : a.xip.size() > b.xip.size();
}

std::vector<LaneWaiting> Survey(const std::vector<LaneRecord>& lanes, const LogEstimate& log,
                                const SurveyLimits& limits, const Snapshot* until) {
  return Surveyor(lanes, log, limits, until).Run();
}

namespace {

// Of lanes that were not counted.
std::vector<LaneWaiting> Unreadable(const std::vector<LaneRecord>& lanes) {
  Waiting one;
  one.more = true;
  one.unreadable = true;
  std::vector<LaneWaiting> waiting;
  for (const LaneRecord& lane : lanes) {
    waiting.push_back({lane.spec != nullptr ? one : Waiting(),
                       std::vector<Waiting>(lane.sides.size(), lane.spec != nullptr ? one : Waiting())});
  }
  return waiting;
}

// Whether all could be read.
bool TrySurvey(const std::vector<LaneRecord>& lanes, const LogEstimate& log, const SurveyLimits& limits,
               std::vector<LaneWaiting>* waiting) {
  return pg::TryPart(pg::IsUnreadable, [&] { *waiting = Survey(lanes, log, limits); }).ok();
}

}  // namespace

std::vector<LaneWaiting> SurveyReadable(const std::vector<LaneRecord>& lanes, const LogEstimate& log,
                                        const SurveyLimits& limits) {
  std::vector<LaneWaiting> all;
  if (TrySurvey(lanes, log, limits, &all)) {
    return all;
  }
  const std::vector<std::vector<LaneRecord>> routes = ByRoute(lanes);
  SurveyLimits share = limits;
  for (size_t* limit : {&share.rows, &share.judgments, &share.pages, &share.parked}) {
    *limit = *limit == 0 ? 0 : Max(*limit / routes.size(), size_t{1});
  }
  all.clear();
  for (const std::vector<LaneRecord>& route : routes) {
    std::vector<LaneWaiting> waiting;
    // Where it is the parked ones that cannot be read, those that lie ahead of a lane count with what waits for it.
    SurveyLimits without_parked = share;
    without_parked.parked = 0;
    if (!TrySurvey(route, log, share, &waiting) && !TrySurvey(route, log, without_parked, &waiting)) {
      waiting = Unreadable(route);
    }
    std::move(waiting.begin(), waiting.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace outbox::admin
