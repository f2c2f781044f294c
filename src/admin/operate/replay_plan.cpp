#include "admin/operate/replay_plan.h"

#include <algorithm>
#include <set>

extern "C" {
#include "miscadmin.h"
}

#include "admin/lookup/edited_events.h"

namespace outbox::admin {

namespace {

static_assert(sizeof(ReplayEvent) == 32);

bool Earlier(const ReplayEvent& a, const ReplayEvent& b) {
  return a.created_at < b.created_at;
}

class Planner {
 public:
  Planner(const ReplayRequest& request, ReplayPlan* plan)
      : plan_(plan),
        from_(plan->from),
        count_ids_(!request.ids.empty()),
        given_up_too_(request.given_up),
        most_(static_cast<size_t>(maintenance_work_mem) * 1024 / sizeof(ReplayEvent)),
        edited_(plan->from) {
    if (request.begun != 0) {
      settled_since_ = SettledSince(from_.route_id(), request.begun);
    }
    Forget();
  }

  void Walk(const WalkFilter& filter) {
    WalkLog(filter, [this](const WalkedEvent& event) { Visit(event); });
  }
  // How many of the ids there are.
  size_t seen() const { return seen_.size(); }
  void Forget() {
    seen_.clear();
    plan_->events.clear();
    plan_->of_topic.assign(plan_->topics.size(), 0);
    plan_->more = false;
    plan_->matched = plan_->first = plan_->last = plan_->bytes = 0;
    plan_->pending = plan_->parked = plan_->given_up = plan_->forgotten = plan_->passed_over = plan_->taken_up = 0;
    plan_->of_others = plan_->edited = plan_->since_begun = 0;
  }

 private:
  void Visit(const WalkedEvent& event) {
    if (count_ids_) {
      seen_.insert(event.id);
    }
    const RouteEvents::Fate fate = from_.FateOf(event);
    const bool settled = fate == RouteEvents::Fate::kDelivered || fate == RouteEvents::Fate::kGivenUp;
    if (settled && std::binary_search(settled_since_.begin(), settled_since_.end(), event.created_at)) {
      plan_->since_begun++;
      return;
    }
    switch (fate) {
      case RouteEvents::Fate::kNotOurs:
      case RouteEvents::Fate::kOlder:
        plan_->of_others += count_ids_;
        return;
      case RouteEvents::Fate::kPending:
        plan_->pending++;
        return;
      case RouteEvents::Fate::kParked:
        plan_->parked++;
        return;
      case RouteEvents::Fate::kGivenUp:
        (given_up_too_ ? plan_->taken_up : plan_->given_up)++;
        if (!given_up_too_) {
          return;
        }
        break;
      case RouteEvents::Fate::kForgotten:
        plan_->forgotten++;
        return;
      case RouteEvents::Fate::kPassedOver:
        plan_->passed_over++;
        break;
      case RouteEvents::Fate::kDelivered:
        break;
    }
    ParkedRow row;
    row.route = plan_->to;
    row.id = UuidText(event.id);
    row.aggregate_type = std::string(event.aggregate_type);
    row.event_type = std::string(event.event_type);
    if (!IsNull(event.aggregate_id)) {
      row.aggregate_id = std::string(event.aggregate_id);
    }
    if (!IsNull(event.topic)) {
      row.own_topic = std::string(event.topic);
    }
    resolver_.Resolve(&row);
    const uint32 topic = plan_->NumberOf(row.topic);
    plan_->of_topic[topic]++;
    plan_->first = plan_->matched == 0 ? event.created_at : std::min(plan_->first, event.created_at);
    plan_->last = std::max(plan_->last, event.created_at);
    plan_->matched++;
    plan_->edited += edited_.Has(event.id) ? 1 : 0;
    plan_->bytes += event.payload_bytes;
    Take({event.created_at, row.order_key, event.block, event.table, topic, event.offset,
          static_cast<uint16>(row.lane)});
  }

  // Keeps the first ones: once there is no more room, as a heap with the last of them on top.
  void Take(const ReplayEvent& event) {
    std::vector<ReplayEvent>& events = plan_->events;
    if (events.size() < most_) {
      events.push_back(event);
      return;
    }
    if (!plan_->more) {
      plan_->more = true;
      std::make_heap(events.begin(), events.end(), Earlier);
    }
    if (Earlier(event, events.front())) {
      std::pop_heap(events.begin(), events.end(), Earlier);
      events.back() = event;
      std::push_heap(events.begin(), events.end(), Earlier);
    }
  }

  ReplayPlan* plan_;
  RouteEvents from_;
  Resolver resolver_;
  const bool count_ids_;
  const bool given_up_too_;
  const size_t most_;
  const EditedEvents edited_;
  // What goes on takes what it was begun with: of what was parked then it has left out what came earlier, and the end
  // of a key is not sent without its beginning.
  std::vector<int64> settled_since_;
  std::set<Uuid> seen_;
};

}  // namespace

uint32 ReplayPlan::NumberOf(const std::string& topic) {
  auto [at, fresh] = topic_numbers.emplace(topic, static_cast<uint32>(topics.size()));
  if (fresh) {
    topics.push_back(topic);
    of_topic.push_back(0);
  }
  return at->second;
}

std::string PlaceOf(const ReplayEvent& event) {
  return "(" + std::to_string(event.block) + "," + std::to_string(event.offset) + ")";
}

void ResolveAgain(const std::string& table, size_t begin, size_t end, Resolver* resolver, ReplayPlan* plan) {
  std::vector<Cell> places;
  for (size_t i = begin; i < end; i++) {
    places.push_back(PlaceOf(plan->events[i]));
  }
  std::string sql =
      "SELECT (extract(epoch FROM l.created_at) * 1000000)::bigint, l.id, l.aggregate_type, l.aggregate_id, "
      "l.event_type, l.topic FROM outbox_internal." +
      table + " l WHERE l.ctid = ANY ($1::tid[])";
  for (const Row& found : RunSql(Access::kWrite, sql.c_str(), {ArrayLiteral(places)})) {
    const int64 created_at = Number(found[0]);
    auto first = plan->events.begin() + static_cast<long>(begin);
    auto event = std::lower_bound(first, plan->events.begin() + static_cast<long>(end), created_at,
                                  [](const ReplayEvent& one, int64 at) { return one.created_at < at; });
    if (event == plan->events.begin() + static_cast<long>(end) || event->created_at != created_at) {
      continue;  // it has moved: the copy leaves it out
    }
    ParkedRow row;
    row.route = plan->to;
    row.id = found[1].value();
    row.aggregate_type = found[2].value();
    row.aggregate_id = found[3];
    row.event_type = found[4].value();
    row.own_topic = found[5];
    resolver->Resolve(&row);
    event->topic = plan->NumberOf(row.topic);
    event->order_key = row.order_key;
    event->lane = static_cast<uint16>(row.lane);
  }
}

void PlanReplay(const ReplayRequest& request, ReplayPlan* plan) {
  Planner planner(request, plan);
  WalkFilter filter = request.filter;
  bool narrowed = request.only_ids;
  if (request.only_ids) {
    // Ids made by outbox say when they were made; those given by clients need not be true.
    int64 first = filter.until, last = 0;
    for (const Uuid& id : request.ids) {
      std::optional<int64_t> micros = Uuid7Micros(id);
      narrowed = narrowed && micros.has_value();
      first = std::min<int64>(first, micros.value_or(first));
      last = std::max<int64>(last, micros.value_or(last));
    }
    if (narrowed) {
      filter.since = std::max(filter.since, first);
      filter.until = std::min(filter.until, last + 1);
    }
  }
  if (filter.since < filter.until) {
    planner.Walk(filter);
  }
  if (narrowed && planner.seen() < request.ids.size()) {
    planner.Forget();
    planner.Walk(request.filter);
  }
  plan->unknown_ids = static_cast<int64>(request.ids.size() - planner.seen());
  std::sort(plan->events.begin(), plan->events.end(), Earlier);
}

}  // namespace outbox::admin
