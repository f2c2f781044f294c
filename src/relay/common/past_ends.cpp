#include "relay/common/past_ends.h"

#include <charconv>
#include <utility>

#include "sink/went_back.h"

namespace outbox::relay {

namespace {

constexpr int64_t kTellAgain = 60'000'000;

// -1: the place has none.
int64_t Offset(std::string_view text) {
  int64_t offset = -1;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), offset);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() ? offset : -1;
}

}  // namespace

PastEnds::End* PastEnds::At(std::string_view topic, int32_t partition) {
  const View at(topic, partition);
  if (auto found = ends_.find(at); found != ends_.end()) {
    return &found->second;
  }
  return ends_.size() < kMost ? &ends_.emplace(at, End()).first->second : nullptr;
}

Error PastEnds::OnPlace(const Teller& teller, const sink::Place& place, int64_t now, int64_t wall) {
  if (place.partition < 0) {
    return {};
  }
  std::vector<Waiting>& waiting = waiting_[teller.second];
  if (teller.cluster.empty()) {
    if (waiting.size() < kMost) {
      waiting.push_back({place, teller.submitted});
    }
    return {};
  }
  Error told;
  for (const Waiting& one : std::exchange(waiting, {})) {
    Error news = Check({teller.second, one.submitted, teller.cluster}, one.place, now, wall);
    told = told.ok() ? std::move(news) : std::move(told);
  }
  Error news = Check(teller, place, now, wall);
  return told.ok() ? news : told;
}

Error PastEnds::Check(const Teller& teller, const sink::Place& place, int64_t now, int64_t wall) {
  const int64_t first = Offset(place.first);
  const int64_t last = Offset(place.last);
  if (first < 0 || last < 0) {
    return {};
  }
  End* end = At(place.topic, place.partition);
  if (end == nullptr) {
    return {};
  }
  const End before = std::exchange(*end, {last, now, lives_[teller.second], teller.cluster});
  if (before.life == end->life || before.cluster != end->cluster) {
    return {};  // its own, which it compares itself; or nobody's of there
  }
  if (before.told >= teller.submitted) {
    if (before.offset > last) {  // the other one's record came later, though it was told sooner
      *end = before;
    }
    return {};
  }
  if (first > before.offset || (told_at_ >= 0 && now < told_at_ + kTellAgain)) {
    return {};
  }
  told_at_ = now;
  return sink::OffsetsWentBack(place.topic, place.partition, before.offset, first, wall);
}

}  // namespace outbox::relay
