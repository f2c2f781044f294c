// Collects places [-]: for each flow, topic and partition the smallest and the largest one.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "sink/sink.h"

namespace outbox::sink {

// The order of offsets ("9" before "10") and of stream ids ("9-2" before "9-10" before "10-0"). "" is before all.
bool PlaceBefore(std::string_view a, std::string_view b);

struct StreamId {
  uint64_t time = 0;
  uint64_t number = 0;
  auto operator<=>(const StreamId&) const = default;  // NOLINT(modernize-use-nullptr): so says clang-tidy 14 of any <=>
};

// "1795311015862-0". False: the text is no stream id.
bool ParseStreamId(std::string_view text, StreamId* id);
// Or the text is "": there is none.
bool IsStreamIdOrNone(std::string_view text);

// The last id that a server has kept, for all that it has answered. What is lacking there and younger than all that is
// certainly kept is lost, with all that is younger still; then what others have written since does not count. What is
// lacking beside something younger was deleted.
std::string_view Survived(std::span<const StreamEnd> ends);

class Places {
 public:
  // Empty first and last: only the topic (and partition) is known.
  void Add(uint32_t flow, std::string_view topic, int32_t partition, std::string_view first, std::string_view last);
  void Add(const Place& place) { Add(place.flow, place.topic, place.partition, place.first, place.last); }
  bool empty() const { return places_.empty(); }
  // Appends all to *places, and forgets them.
  void Take(std::vector<Place>* places);
  void Clear() { places_.clear(); }

 private:
  struct Range {
    std::string first;
    std::string last;
  };
  using View = std::tuple<uint32_t, int32_t, std::string_view>;
  struct Less {
    using is_transparent = void;
    bool operator()(const View& a, const View& b) const { return a < b; }
  };
  std::map<std::tuple<uint32_t, int32_t, std::string>, Range, Less> places_;  // by flow, partition, topic
};

}  // namespace outbox::sink
