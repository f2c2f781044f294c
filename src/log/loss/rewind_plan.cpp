#include "log/loss/rewind_plan.h"

#include <algorithm>

#include "log/progress/side_rows.h"
#include "pg/encoding.h"
#include "pg/sql.h"

namespace outbox::log {

using namespace pg::sql;

Position Oldest(const std::vector<Position>& positions) {
  Position oldest = positions[0];
  for (size_t i = 1; i < positions.size(); i++) {
    oldest.target.reset();
    oldest.done_to = kBeforeAllTime;
    if (!positions[i].base.Covers(oldest.base)) {
      oldest.base = positions[i].base;
    }
  }
  return oldest;
}

namespace {

const Position& Older(const Position& a, const Position& b, Position* mixed) {
  *mixed = Oldest({a, b});
  return *mixed;
}

}  // namespace

void ReadPresent(const LaneId& lane, Finding* finding) {
  finding->sides.present.clear();
  ReadSides(lane, &finding->sides.present);
  finding->sides.stands.resize(finding->sides.present.size());
  LaneId id = lane;
  for (size_t i = 0; i < finding->sides.present.size(); i++) {
    id.side = finding->sides.present[i].side;
    ReadLaneRow(id, &finding->sides.stands[i]);
  }
  static Statement topic = {"SELECT r.topic FROM outbox.route r WHERE r.id = $1", 1, {INT8OID}, nullptr};
  Datum values[] = {Int64GetDatum(lane.route_id)};
  RunStatement(&topic, values);
  if (SPI_processed > 0) {
    finding->sides.topic_template = pg::Utf8(ResultText(0, 0));
  }
}

void PlanSides(const Position& position, bool moved, Finding* finding) {
  Position mixed;
  int32 number = 0;
  for (size_t i = 0; i < finding->sides.present.size(); i++) {
    const relay::SideLane& side = finding->sides.present[i];
    number = std::max(number, side.side);
    SideMove move{side, finding->sides.stands[i].position};
    bool goes = false;
    const auto back_to = [&](relay::SideTopic* topic, const Position& kept) {
      topic->start = Older(topic->start, kept, &mixed);
      move.position = Older(move.position, kept, &mixed);
      goes = true;
    };
    for (relay::SideTopic& topic : move.side.topics) {
      for (const LostTopic& lost : finding->sides.topics) {
        if (lost.topic == topic.topic) {
          back_to(&topic, lost.kept);
        }
      }
      if (moved && !position.base.Covers(topic.start.base)) {
        back_to(&topic, position);
      }
    }
    std::erase_if(finding->sides.topics, [&](const LostTopic& lost) {
      return std::any_of(side.topics.begin(), side.topics.end(),
                         [&](const relay::SideTopic& topic) { return topic.topic == lost.topic; });
    });
    if (goes) {
      finding->sides.moves.push_back(std::move(move));
    }
  }
  std::sort(finding->sides.topics.begin(), finding->sides.topics.end(),
            [](const LostTopic& a, const LostTopic& b) { return a.topic < b.topic; });
  for (size_t i = 0; i < finding->sides.topics.size();) {
    Position kept = finding->sides.topics[i].kept;
    const std::string& name = finding->sides.topics[i].topic;
    size_t next = i + 1;
    for (; next < finding->sides.topics.size() && finding->sides.topics[next].topic == name; next++) {
      kept = Older(kept, finding->sides.topics[next].kept, &mixed);
    }
    i = next;
    if (moved && kept.base.Covers(position.base)) {
      continue;  // the lane begins before that
    }
    SideMove& made = finding->sides.moves.emplace_back();
    made.position = moved ? Older(kept, position, &mixed) : kept;
    made.side.side = ++number;
    made.side.topic_template =
        finding->sides.present.empty() ? finding->sides.topic_template : finding->sides.present[0].topic_template;
    made.side.topics.push_back(
        {name, made.position, {ErrorClass::kTopic, "LOST_WRITES", "what it had is being sent again"}, pg::UnixNow()});
  }
}

const Position& ReaderOf(const LostParked& lost, const Position& position, const Finding& finding) {
  for (const SideMove& move : finding.sides.moves) {
    for (const relay::SideTopic& topic : move.side.topics) {
      if (topic.topic == lost.topic) {
        return move.position;
      }
    }
  }
  for (size_t i = 0; i < finding.sides.present.size(); i++) {
    for (const relay::SideTopic& topic : finding.sides.present[i].topics) {
      if (topic.topic == lost.topic) {
        return finding.sides.stands[i].position;
      }
    }
  }
  return position;
}

}  // namespace outbox::log
