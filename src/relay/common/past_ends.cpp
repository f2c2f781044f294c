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

void PastEnds::Set(const View& at, int64_t offset, Ends* ends) {
  if (auto found = ends->find(at); found != ends->end()) {
    found->second = offset;
  } else if (ends->size() < kMost) {
    ends->emplace(at, offset);
  }
}

Error PastEnds::OnPlace(const sink::Place& place, const std::string& cluster, int64_t now, int64_t wall) {
  if (place.partition < 0) {
    return {};
  }
  if (cluster.empty()) {
    if (waiting_.size() < kMost) {
      waiting_.push_back(place);
    }
    return {};
  }
  if (cluster != cluster_) {
    past_.clear();
    present_.clear();
    cluster_ = cluster;
  }
  Error told;
  for (const sink::Place& one : std::exchange(waiting_, {})) {
    Error news = Check(one, now, wall);
    told = told.ok() ? std::move(news) : std::move(told);
  }
  Error news = Check(place, now, wall);
  return told.ok() ? news : told;
}

Error PastEnds::Check(const sink::Place& place, int64_t now, int64_t wall) {
  const View at(place.topic, place.partition);
  const int64_t first = Offset(place.first);
  const int64_t last = Offset(place.last);
  if (first < 0 || last < 0) {
    return {};
  }
  Set(at, last, &present_);
  const auto found = past_.find(at);
  const int64_t before = found == past_.end() ? -1 : found->second;
  if (found != past_.end()) {
    past_.erase(found);
  }
  if (first > before || (told_at_ >= 0 && now < told_at_ + kTellAgain)) {
    return {};
  }
  told_at_ = now;
  return sink::OffsetsWentBack(place.topic, place.partition, before, first, wall);
}

void PastEnds::Renew() {
  waiting_.clear();
  for (const auto& [at, offset] : std::exchange(present_, {})) {
    Set(at, offset, &past_);
  }
}

}  // namespace outbox::relay
