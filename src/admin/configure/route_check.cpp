#include "admin/configure/route_check.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "admin/common/text_encoding.h"
#include "admin/lookup/server.h"
#include "base/near_names.h"
#include "format/template.h"
#include "pg/guard.h"

extern "C" {
#include "utils/timestamp.h"
}

namespace outbox::admin {

namespace {

constexpr size_t kMaxPattern = 255;
constexpr size_t kMaxPatterns = 256;
constexpr int kMaxAttempts = 1000;
constexpr int64 kShortestBackoff = 1000;  // 1 ms
constexpr int64 kLongestBackoff = 7 * USECS_PER_DAY;

[[noreturn]] void Refuse(int sqlstate, std::string message, std::string detail, std::string hint) {
  throw pg::UserError{sqlstate, std::move(message), std::move(detail), std::move(hint)};
}

// Workers compare and build names in UTF-8; they could not load the route otherwise.
void CheckConvertible(const std::string& text) {
  (void)Utf8(text);
}

[[noreturn]] void RefuseTemplate(const char* what, const std::string& text, const format::TemplateError& error) {
  Refuse(
      ERRCODE_INVALID_PARAMETER_VALUE, "invalid " + std::string(what) + " template: " + error.message,
      "The template is \"" + text + "\", the trouble starts at character " + std::to_string(error.position + 1) + ".",
      error.hint);
}

}  // namespace

std::vector<std::string> CheckPatterns(const char* argument, const std::vector<Cell>& patterns) {
  std::vector<std::string> result;
  std::set<std::string> known;
  for (const Cell& pattern : patterns) {
    if (!pattern || pattern->empty()) {
      Refuse(ERRCODE_INVALID_PARAMETER_VALUE, std::string(argument) + " holds an empty pattern", "",
             "A pattern is a name, with * for any run of characters; a lone * takes everything.");
    }
    if (std::any_of(pattern->begin(), pattern->end(), [](unsigned char c) { return c < ' ' || c == 127; })) {
      Refuse(ERRCODE_INVALID_PARAMETER_VALUE, std::string(argument) + " holds a pattern with a control character", "",
             "Names of aggregates and events are plain text.");
    }
    if (pattern->size() > kMaxPattern) {
      Refuse(ERRCODE_INVALID_PARAMETER_VALUE, std::string(argument) + " holds a pattern that is too long",
             "It has " + std::to_string(pattern->size()) + " bytes.", "A pattern has at most 255 bytes.");
    }
    CheckConvertible(*pattern);
    if (known.insert(*pattern).second) {
      result.push_back(*pattern);
    }
  }
  if (result.empty()) {
    Refuse(ERRCODE_INVALID_PARAMETER_VALUE, std::string(argument) + " is empty", "No event would match.",
           "'{*}' takes everything; drop_route() ends a route.");
  }
  if (result.size() > kMaxPatterns) {
    Refuse(ERRCODE_INVALID_PARAMETER_VALUE, std::string(argument) + " holds too many patterns",
           "It holds " + std::to_string(result.size()) + ".", "A route takes at most 256; use * to cover several.");
  }
  return result;
}

void CheckTopicTemplate(const sink::SinkKind& kind, const std::string& text) {
  CheckConvertible(text);
  const sink::TopicTemplateRules& rules = *kind.topic_template;
  format::TemplateError error;
  std::optional<format::Template> parsed = format::Template::ParseTopic(text, rules, &error);
  if (!parsed) {
    RefuseTemplate("topic", text, error);
  }
  // Sample names that every destination accepts: an error in the expansion is then the fault of the template's own
  // text.
  std::string sample;
  parsed->Expand("a", "1", "b", &sample);
  const char* bad = rules.bad_name(Utf8(sample));
  if (bad != nullptr) {
    Refuse(ERRCODE_INVALID_PARAMETER_VALUE, "invalid topic template \"" + text + "\"",
           "The topic name " + std::string(bad) + ".", rules.names);
  }
}

void CheckKeyTemplate(const std::string& text) {
  CheckConvertible(text);
  format::TemplateError error;
  if (!format::Template::ParseKey(text, &error)) {
    RefuseTemplate("key", text, error);
  }
}

void CheckLanes(int64_t lanes) {
  if (lanes < 1 || lanes > kMaxLanes) {
    Refuse(
        ERRCODE_INVALID_PARAMETER_VALUE, "lanes must be between 1 and " + std::to_string(kMaxLanes),
        "It is " + std::to_string(lanes) + ".",
        "A lane is an ordered reading position; more lanes than outbox.workers only help where a destination is slow.");
  }
}

namespace {

int64 IntervalMicros(const std::string& text) {
  const char* input = text.c_str();
  return pg::Guard([&] {
    Interval* interval = DatumGetIntervalP(
        DirectFunctionCall3(interval_in, CStringGetDatum(input), ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
    double days = static_cast<double>(interval->month) * DAYS_PER_MONTH + interval->day;
    double micros = days * static_cast<double>(USECS_PER_DAY) + static_cast<double>(interval->time);
    return static_cast<int64>(std::clamp(micros, -1e15, 1e15));
  });
}

}  // namespace

PolicyArguments CheckPolicy(FunctionCallInfo fcinfo, int first, const PolicyArguments& old) {
  PolicyArguments policy;
  policy.on_failure = PG_ARGISNULL(first) ? old.on_failure : TextArgument(fcinfo, first);
  policy.max_attempts = PG_ARGISNULL(first + 1) ? old.max_attempts : TextArgument(fcinfo, first + 1);
  policy.backoff_base = PG_ARGISNULL(first + 2) ? old.backoff_base : TextArgument(fcinfo, first + 2);
  policy.backoff_cap = PG_ARGISNULL(first + 3) ? old.backoff_cap : TextArgument(fcinfo, first + 3);
  if (policy.on_failure != "skip" && policy.on_failure != "block") {
    Refuse(ERRCODE_INVALID_PARAMETER_VALUE, "invalid on_failure \"" + policy.on_failure.value() + "\"", "",
           "It is 'skip', where a dead letter lets its key go on, or 'block', where later events of the key wait until "
           "an operator has acted on it.");
  }
  long attempts = std::strtol(policy.max_attempts.value().c_str(), nullptr, 10);
  if (attempts < 1 || attempts > kMaxAttempts) {
    Refuse(ERRCODE_INVALID_PARAMETER_VALUE, "max_attempts must be between 1 and " + std::to_string(kMaxAttempts),
           "It is " + std::to_string(attempts) + ".",
           "It counts the first try; trouble of a topic or of the destination uses up none.");
  }
  int64 base = IntervalMicros(policy.backoff_base.value());
  int64 cap = IntervalMicros(policy.backoff_cap.value());
  if (base < kShortestBackoff || base > kLongestBackoff) {
    Refuse(ERRCODE_INVALID_PARAMETER_VALUE, "backoff_base must be between 1 ms and 7 days",
           "It is " + *policy.backoff_base + ".", "The first pause is random in 0 .. backoff_base, and doubles.");
  }
  if (cap < base || cap > kLongestBackoff) {
    Refuse(ERRCODE_INVALID_PARAMETER_VALUE, "backoff_cap must be between backoff_base and 7 days",
           "It is " + *policy.backoff_cap + ", and backoff_base is " + *policy.backoff_base + ".",
           "It is the longest pause between two tries.");
  }
  return policy;
}

namespace {

constexpr const char* kTopicsKnown =
    "For example '{\"topics_known\": [\"shop.orders\", \"shop.payments.*\"]}'; * is any run of characters.";

// An option of all kinds: which topics events of the route may go to. Returns it as it was given.
std::string CheckTopicsKnown(const std::string& type, const std::string& value) {
  if (type != "array") {
    Refuse(ERRCODE_INVALID_PARAMETER_VALUE, "route option \"topics_known\" must be an array of topics",
           "It is of JSON type " + type + ".", kTopicsKnown);
  }
  std::vector<Cell> patterns;
  for (const Row& row : RunSql(
           Access::kRead, "SELECT e #>> '{}', jsonb_typeof(e) FROM jsonb_array_elements($1::jsonb) e", {Cell(value)})) {
    if (row[1] != "string") {
      Refuse(ERRCODE_INVALID_PARAMETER_VALUE, "route option \"topics_known\" must be an array of topics",
             "One of its elements is of JSON type " + row[1].value() + ".", kTopicsKnown);
    }
    patterns.push_back(row[0]);
  }
  if (patterns.empty()) {
    Refuse(ERRCODE_INVALID_PARAMETER_VALUE, "route option \"topics_known\" must name one topic at least",
           "An empty list would let nothing go anywhere.",
           "Leave the option out where all topics are right; outbox.pause() stops a route.");
  }
  (void)CheckPatterns("topics_known", patterns);
  return value;
}

[[noreturn]] void RefuseOption(const sink::OptionProblem& problem) {
  const char* s = problem.sqlstate;
  Refuse(MAKE_SQLSTATE(s[0], s[1], s[2], s[3], s[4]), FromUtf8(problem.message), FromUtf8(problem.detail),
         FromUtf8(problem.hint));
}

[[noreturn]] void RefuseUnknown(const sink::SinkKind& kind, const format::Format& format, const std::string& name) {
  std::vector<std::string_view> known = {"topics_known"};
  for (const auto options : {kind.route_options, format.options}) {
    for (const sink::RouteOption& option : options) {
      known.emplace_back(option.name);
    }
  }
  const std::string near = DidYouMean(name, known);
  std::string hint = kind.route_options_hint != nullptr
                         ? kind.route_options_hint
                         : "Routes to " + std::string(kind.title) +
                               " take topics_known; the options of the destination belong to its server.";
  for (const sink::RouteOption& option : format.options) {
    hint += (&option == format.options.data() ? " With format " + std::string(format.name) + " they also take "
                                              : std::string(", ")) +
            option.name;
  }
  hint += format.options.empty() ? "" : ".";
  for (const format::Format* other : format::Formats()) {
    if (other != &format && format::FindRouteOption(sink::kUnknownKind, *other, name) != nullptr) {
      hint += " It is an option of format " + std::string(other->name) + ".";
      break;
    }
  }
  Refuse(ERRCODE_INVALID_PARAMETER_VALUE, "unknown route option \"" + name + "\"", "",
         (near.empty() ? "" : near + " ") + hint);
}

}  // namespace

const format::Format& CheckFormat(const Cell& name) {
  if (!name) {
    Refuse(ERRCODE_NULL_VALUE_NOT_ALLOWED, "a route needs a format", "", "It is " + format::FormatNames() + ".");
  }
  const format::Format* format = format::FindFormat(*name);
  if (format == nullptr) {
    RefuseOption(format::UnknownFormat(Utf8(*name)));
  }
  return *format;
}

std::string CheckRouteOptions(const sink::SinkKind& kind, const format::Format& format,
                              const std::vector<Row>& options) {
  std::string result;
  sink::OptionList list;
  for (const Row& row : options) {
    const std::string& name = row[0].value();
    const std::string& type = row[1].value();
    const std::string value = row[2].value_or("");
    std::string stored = row[3].value();
    if (name == "topics_known") {
      stored = CheckTopicsKnown(type, value);
    } else {
      const sink::RouteOption* option = format::FindRouteOption(kind, format, name);
      if (option == nullptr) {
        RefuseUnknown(kind, format, name);
      }
      if (type != "string" && type != "boolean") {
        Refuse(ERRCODE_INVALID_PARAMETER_VALUE, "invalid value for route option \"" + name + "\": \"" + value + "\"",
               "It is of JSON type " + type + ".", "The value is a string.");
      }
      const sink::OptionProblem problem = format::CheckRouteOption(*option, Utf8(value));
      if (!problem.ok()) {
        RefuseOption(problem);
      }
    }
    list.emplace_back(name, Utf8(value));
    result += (result.empty() ? "\"" : ", \"") + name + "\": " + stored;
  }
  if (format.check != nullptr) {
    const sink::RecordForm form = kind.form != nullptr ? kind.form(list) : sink::RecordForm::kStream;
    const sink::OptionProblem problem = format.check({&kind, form, &list, {}});
    if (!problem.ok()) {
      RefuseOption(problem);
    }
  }
  return "{" + result + "}";
}

}  // namespace outbox::admin
