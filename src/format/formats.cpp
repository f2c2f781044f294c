#include <algorithm>
#include <vector>

#include "base/letter_case.h"
#include "base/near_names.h"
#include "format/format.h"

// Every format: FORMAT(x) is `x`, in the file of that format.
#define OUTBOX_FORMATS(FORMAT)   \
  FORMAT(kOutboxFormat)          \
  FORMAT(kPayloadFormat)         \
  FORMAT(kDebeziumFormat)        \
  FORMAT(kCloudEventsFormat)     \
  FORMAT(kCloudEventsJsonFormat) \
  /* the last */

namespace outbox::format {

#define OUTBOX_DECLARE_FORMAT(name) extern const Format name;
OUTBOX_FORMATS(OUTBOX_DECLARE_FORMAT)
#undef OUTBOX_DECLARE_FORMAT

namespace {

#define OUTBOX_LIST_FORMAT(name) &(name),
constexpr const Format* kFormats[] = {OUTBOX_FORMATS(OUTBOX_LIST_FORMAT)};
#undef OUTBOX_LIST_FORMAT

constexpr const char* kInvalidValue = "22023";

// "a, b and c" of "a|b|c".
std::string ChoicesText(std::string_view choices) {
  std::string text;
  while (!choices.empty()) {
    const size_t bar = choices.find('|');
    const bool last = bar == std::string_view::npos;
    text += (text.empty() ? "" : last ? " and " : ", ") + std::string(choices.substr(0, bar));
    choices.remove_prefix(last ? choices.size() : bar + 1);
  }
  return text;
}

bool IsChoice(std::string_view choices, std::string_view value) {
  while (true) {
    const size_t bar = choices.find('|');
    if (choices.substr(0, bar) == value) {
      return true;
    }
    if (bar == std::string_view::npos) {
      return false;
    }
    choices.remove_prefix(bar + 1);
  }
}

}  // namespace

std::span<const Format* const> Formats() {
  return kFormats;
}

const Format* FindFormat(std::string_view name) {
  const auto found = std::find_if(std::begin(kFormats), std::end(kFormats),
                                  [&](const Format* format) { return name == format->name; });
  return found == std::end(kFormats) ? nullptr : *found;
}

std::string FormatNames() {
  std::string names;
  for (const Format* format : kFormats) {
    names += names.empty() ? "" : format == std::end(kFormats)[-1] ? " or " : ", ";
    names += format->name;
  }
  return names;
}

sink::OptionProblem UnknownFormat(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Format* format : kFormats) {
    names.emplace_back(format->name);
  }
  const std::string near = DidYouMean(name, names);
  return {kInvalidValue, "unknown format \"" + std::string(name) + "\"", "",
          near + (near.empty() ? "" : " ") + "A format is " + FormatNames() + "."};
}

const sink::RouteOption* FindRouteOption(const sink::SinkKind& kind, const Format& format, std::string_view name) {
  for (const auto options : {kind.route_options, format.options}) {
    for (const sink::RouteOption& option : options) {
      if (name == option.name) {
        return &option;
      }
    }
  }
  return nullptr;
}

bool IsTaken(const TakenName& taken, std::string_view name) {
  if (!taken.begins && !taken.any_case) {
    return name == taken.name;
  }
  return taken.begins ? StartsIgnoringCase(name, taken.name) : EqualsIgnoringCase(name, taken.name);
}

sink::OptionProblem CheckRouteOption(const sink::RouteOption& option, std::string_view value) {
  const std::string invalid =
      "invalid value for route option \"" + std::string(option.name) + "\": \"" + std::string(value) + "\"";
  if (option.choices != nullptr) {
    return IsChoice(option.choices, value)
               ? sink::OptionProblem{}
               : sink::OptionProblem{kInvalidValue, invalid, "", "It is one of " + ChoicesText(option.choices) + "."};
  }
  if (option.check != nullptr) {
    return option.check(value);
  }
  return value.empty() ? sink::OptionProblem{kInvalidValue, invalid, "It is empty.", "Leave the option out."}
                       : sink::OptionProblem{};
}

}  // namespace outbox::format
