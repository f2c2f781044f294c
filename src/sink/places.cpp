#include "sink/places.h"

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
