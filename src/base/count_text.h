// Numbers of things, as messages have them [-].
#pragma once

#include <concepts>
#include <string>

namespace outbox {

// "1 day table", "2 day tables": with what belongs to them, as in "1 route is", "2 routes are".
template <std::integral Number>
std::string CountText(Number count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

// "1 event", "2 events".
template <std::integral Number>
std::string CountText(Number count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace outbox
