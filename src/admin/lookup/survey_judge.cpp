#include "admin/lookup/survey_judge.h"

#include <algorithm>
#include <cstdlib>

#include "admin/common/query.h"
#include "log/window/blank.h"

namespace outbox::admin {

namespace {

constexpr size_t kMostTypes = 4096;

}  // namespace

void SurveyJudge::Row(const log::RowView& row, uint64_t) {
  if ((row.deliver_at > now_ && !limits_.later) || log::RowForgotten(row)) {
    return;
  }
  EventFacts facts;
  facts.aggregate_type = log::RowText(row, log::kAggregateType);
  facts.event_type = log::RowText(row, log::kEventType);
  const std::vector<const Route*>& wanting = WantedBy(facts.aggregate_type, facts.event_type);
  if (wanting.empty()) {
    return;
  }
  Uuid id;
  memcpy(id.data(), row.id, id.size());
  facts.xid = row.xid;
  facts.created_at = row.created_at;
  facts.aggregate_id = log::RowText(row, log::kAggregateId);
  facts.topic = log::RowText(row, log::kTopic);
  const uint32 hash = format::KeyHash(facts.aggregate_id, id);
  judgments += wanting.size();
  for (const Route* route : wanting) {
    const Lane& lane = route->by_number[hash % route->by_number.size()];
    if (lane.record == nullptr || (lane.record->sides.empty() && lane.record->PassedBy(facts, -1))) {
      continue;
    }
    const int side = lane.record->SideOf(facts);
    if (lane.record->PassedBy(facts, side)) {
      continue;
    }
    const size_t number = lane.number + static_cast<size_t>(side + 1);
    if (sampling) {
      if (row.deliver_at <= now_) {
        counts[number].sampled++;
        counts[number].See(std::max(row.created_at, row.deliver_at));
      }
    } else if (route->parks && candidates_.size() < limits_.candidates) {
      candidates_.push_back({number, route->id, row.created_at, row.deliver_at, id});
    } else {
      CountWalked(number, row.created_at, row.deliver_at);
    }
  }
}

void SurveyJudge::CountWalked(size_t number, int64 created_at, int64 deliver_at) {
  SurveyCount& count = counts[number];
  if (deliver_at > now_) {
    count.later.Add(deliver_at);
  } else {
    count.walked++;
    count.See(std::max(created_at, deliver_at));
  }
}

const std::vector<const SurveyJudge::Route*>& SurveyJudge::WantedBy(std::string_view aggregate_type,
                                                                    std::string_view event_type) {
  if (last_ == nullptr || last_->first.first != aggregate_type || last_->first.second != event_type) {
    Types types(aggregate_type, event_type);
    auto found = types_.find(types);
    if (found == types_.end()) {
      if (types_.size() >= kMostTypes) {
        types_.clear();
      }
      std::vector<const Route*> wanting;
      for (const Route& route : routes_) {
        if (route.spec->WantsTypes(aggregate_type, event_type)) {
          wanting.push_back(&route);
        }
      }
      found = types_.emplace(std::move(types), std::move(wanting)).first;
    }
    last_ = &*found;
  }
  return last_->second;
}

std::vector<size_t> SurveyJudge::FindParked() const {
  std::vector<Cell> routes, times, ids;
  for (const Candidate& one : candidates_) {
    routes.emplace_back(std::to_string(one.route_id));
    times.push_back(UnixMicrosCell(one.created_at));
    ids.emplace_back(UuidText(one.id));
  }
  std::vector<size_t> parked;
  static PlannedQuery query = {
      "SELECT k.n FROM ROWS FROM (unnest($1::bigint[]), unnest($2::timestamptz[]), unnest($3::uuid[])) "
      "WITH ORDINALITY k(route_id, created_at, id, n) WHERE EXISTS (SELECT FROM outbox_internal.parked p "
      "WHERE p.route_id = k.route_id AND p.created_at = k.created_at AND p.id = k.id AND p.replay = 0) ORDER BY 1",
      Plan::kByKey, "parked"};
  for (const admin::Row& row : RunPlanned(&query, {ArrayLiteral(routes), ArrayLiteral(times), ArrayLiteral(ids)})) {
    parked.push_back(static_cast<size_t>(std::strtoull(row[0].value().c_str(), nullptr, 10)) - 1);
  }
  return parked;
}

void SurveyJudge::CountCandidates() {
  if (candidates_.empty()) {
    return;
  }
  const std::vector<size_t> parked = FindParked();
  auto next = parked.begin();
  for (size_t i = 0; i < candidates_.size(); i++) {
    if (next != parked.end() && *next == i) {
      ++next;
      continue;
    }
    CountWalked(candidates_[i].number, candidates_[i].created_at, candidates_[i].deliver_at);
  }
}

std::vector<int64> ParkingRoutes() {
  std::vector<int64> routes;
  static PlannedQuery query = {
      "SELECT r.id FROM outbox.route r WHERE EXISTS (SELECT FROM outbox_internal.parked p WHERE p.route_id = r.id) "
      "ORDER BY 1",
      Plan::kByKey, "parked"};
  for (const Row& row : RunPlanned(&query)) {
    routes.push_back(Number(row[0]));
  }
  return routes;
}

}  // namespace outbox::admin
