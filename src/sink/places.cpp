#include "sink/places.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace outbox::sink {

bool PlaceBefore(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    const std::string_view left = a.substr(0, a.find('-'));
    const std::string_view right = b.substr(0, b.find('-'));
    if (left.size() != right.size()) {
      return left.size() < right.size();  // no leading zeros in either
    }
    if (left != right) {
      return left < right;
    }
    a.remove_prefix(left.size() == a.size() ? a.size() : left.size() + 1);
    b.remove_prefix(right.size() == b.size() ? b.size() : right.size() + 1);
  }
  return a.empty() && !b.empty();
}

bool ParseStreamId(std::string_view text, StreamId* id) {
  const char* end = text.data() + text.size();
  auto time = std::from_chars(text.data(), end, id->time);
  if (time.ec != std::errc() || time.ptr == end || *time.ptr != '-') {
    return false;
  }
  auto number = std::from_chars(time.ptr + 1, end, id->number);
  return number.ec == std::errc() && number.ptr == end;
}

bool IsStreamIdOrNone(std::string_view text) {
  StreamId id;
  return text.empty() || ParseStreamId(text, &id);
}

std::string_view Survived(std::span<const StreamEnd> ends) {
  std::string_view kept = "0-0";
  std::string_view last = "0-0";
  for (const StreamEnd& end : ends) {
    kept = PlaceBefore(kept, end.kept) ? std::string_view(end.kept) : kept;
    last = PlaceBefore(last, end.last) ? std::string_view(end.last) : last;
  }
  const bool lost = std::any_of(ends.begin(), ends.end(), [kept](const StreamEnd& end) {
    return end.lacking && PlaceBefore(kept, end.acknowledged);
  });
  return lost ? kept : last;
}

void Places::Add(uint32_t flow, std::string_view topic, int32_t partition, std::string_view first,
                 std::string_view last) {
  auto found = places_.find(View(flow, partition, topic));
  if (found == places_.end()) {
    found = places_.try_emplace({flow, partition, std::string(topic)}).first;
  }
  Range& range = found->second;
  if (!first.empty() && (range.first.empty() || PlaceBefore(first, range.first))) {
    range.first.assign(first);
  }
  if (PlaceBefore(range.last, last)) {
    range.last.assign(last);
  }
}

void Places::Take(std::vector<Place>* places) {
  while (!places_.empty()) {
    auto node = places_.extract(places_.begin());
    auto& [flow, partition, topic] = node.key();
    places->push_back(
        {flow, std::move(topic), partition, std::move(node.mapped().first), std::move(node.mapped().last)});
  }
}

}  // namespace outbox::sink
