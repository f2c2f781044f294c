// Options of destinations: what is refused is refused with a reason that tells no secret; what is taken is in one
// spelling, within its rule, and taken again.
// Input: one byte of kind, then lines: name=value for the server, !name=value for the user mapping; \n in a value is
// written as \x01. A name of # and one byte is that entry of the allow-list, so that the fuzzer need not guess names.
#include <algorithm>
#include <cerrno>
#include <cmath>

#include "fuzz.h"
#include "sink/kind.h"

using namespace outbox;
using namespace outbox::sink;

namespace {

constexpr std::string_view kStates[] = {"HV00D", "42501", "22023", "42710"};

void CheckProblem(const OptionProblem& problem, const OptionList& options, const OptionList& secrets) {
  FUZZ_CHECK(std::find(std::begin(kStates), std::end(kStates), problem.sqlstate) != std::end(kStates));
  FUZZ_CHECK(!problem.message.empty());
  FUZZ_CHECK(problem.detail.empty() || problem.detail.ends_with('.'));
  FUZZ_CHECK(problem.hint.empty() || problem.hint.ends_with('.') || problem.hint.ends_with('?'));
  bool utf8 = true;
  for (const OptionList* list : {&options, &secrets}) {
    for (const auto& [name, value] : *list) {
      utf8 = utf8 && fuzz::IsUtf8(name) && fuzz::IsUtf8(value);
    }
  }
  FUZZ_CHECK(!utf8 || (fuzz::IsUtf8(problem.message) && fuzz::IsUtf8(problem.detail) && fuzz::IsUtf8(problem.hint)));
}

const OptionRule& RuleOf(const SinkKind& kind, std::string_view name) {
  const OptionRule* rule = FindOption(kind, name);
  FUZZ_CHECK(rule != nullptr && rule->canonical == nullptr);
  return *rule;
}

// A value as the client library will read it.
void CheckMergedValue(const OptionRule& rule, const std::string& value) {
  FUZZ_CHECK(!value.empty());
  const bool pem = rule.type == ValueType::kPem;
  for (char c : value) {
    auto byte = static_cast<unsigned char>(c);
    FUZZ_CHECK((byte >= 0x20 && byte != 0x7f) || (pem && (c == '\n' || c == '\r' || c == '\t')));
  }
  char* end = nullptr;
  switch (rule.type) {
    case ValueType::kBool:
      FUZZ_CHECK(value == "true" || value == "false");
      break;
    case ValueType::kInteger: {
      errno = 0;
      const long long number = std::strtoll(value.c_str(), &end, 0);  // base 0, as librdkafka does: 010 would be 8
      FUZZ_CHECK(*end == '\0' && errno == 0);
      FUZZ_CHECK(number >= rule.min && number <= rule.max);
      FUZZ_CHECK(std::strtoll(value.c_str(), nullptr, 10) == number);
      break;
    }
    case ValueType::kNumber: {
      const double number = std::strtod(value.c_str(), &end);
      FUZZ_CHECK(*end == '\0' && std::isfinite(number));
      FUZZ_CHECK(number >= static_cast<double>(rule.min) && number <= static_cast<double>(rule.max));
      break;
    }
    case ValueType::kEnum:
      FUZZ_CHECK(("|" + std::string(rule.choices) + "|").find("|" + value + "|") != std::string::npos);
      break;
    case ValueType::kHosts:
    case ValueType::kHost:
      FUZZ_CHECK(value.find_first_of(" \"'/\\?#@=") == std::string::npos);
      break;
    case ValueType::kPath:
    case ValueType::kSocket:
      FUZZ_CHECK(value.front() == '/');
      break;
    case ValueType::kWord:
      FUZZ_CHECK(value.find_first_of(" \"'`$;|&<>()\\!*?#") == std::string::npos);
      break;
    case ValueType::kText:
    case ValueType::kPem:
      break;
  }
}

void CheckOne(const SinkKind& kind, const std::string& name, const std::string& value) {
  const OptionRule* rule = FindOption(kind, name);
  for (OptionPlace place : {OptionPlace::kServer, OptionPlace::kMapping}) {
    const OptionProblem owner = CheckOption(kind, place, name, value, false);
    const OptionProblem super = CheckOption(kind, place, name, value, true);
    FUZZ_CHECK(super.ok() || !owner.ok());
    FUZZ_CHECK(rule != nullptr || !super.ok());
    for (const OptionProblem* problem : {&owner, &super}) {
      if (problem->ok()) {
        continue;
      }
      CheckProblem(*problem, {{name, value}}, {});
      const OptionRule* real = rule == nullptr || rule->canonical == nullptr ? rule : FindOption(kind, rule->canonical);
      if (real != nullptr && real->group == OptionGroup::kSecret && value.size() >= 12) {
        const OptionProblem other =
            CheckOption(kind, place, name, std::string(value.size(), '\x02'), problem == &super);
        FUZZ_CHECK(problem->message.find(value) == std::string::npos || other.message == problem->message);
        FUZZ_CHECK(problem->detail.find(value) == std::string::npos || other.detail == problem->detail);
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  const SinkKind& kind = *Kinds()[in.Take<uint8_t>() % Kinds().size()];
  OptionList server;
  OptionList mapping;
  bool seen_unknown = false;
  while (!in.empty() && server.size() + mapping.size() < 16) {
    std::string_view line = in.Line();
    const bool secret = line.starts_with('!');
    line.remove_prefix(secret ? 1 : 0);
    const std::string_view written = line.substr(0, line.find('='));
    std::string name(written);
    if (name.size() == 2 && name[0] == '#') {
      const auto rules = OptionRules(kind);
      name = rules.empty() ? "" : rules[static_cast<uint8_t>(name[1]) % rules.size()].name;
    }
    std::string value(line.substr(std::min(line.size(), written.size() + 1)));
    std::replace(value.begin(), value.end(), '\x01', '\n');
    if (FindOption(kind, name) != nullptr) {
      CheckOne(kind, name, value);
    } else if (!seen_unknown) {  // one is enough: looking for what was meant takes its time
      CheckProblem(CheckOption(kind, secret ? OptionPlace::kMapping : OptionPlace::kServer, name, value, false),
                   {{name, value}}, {});
      seen_unknown = true;
    }
    (secret ? mapping : server).emplace_back(std::move(name), std::move(value));
  }

  const Options untouched{{"untouched", "1"}};
  Options merged = untouched;
  const OptionProblem problem = MergeOptions(kind, server, mapping, &merged);
  if (!problem.ok()) {
    CheckProblem(problem, server, mapping);
    FUZZ_CHECK(merged == untouched);
    return 0;
  }
  FUZZ_CHECK(CheckOptions(kind, OptionPlace::kServer, server, true).ok());
  FUZZ_CHECK(CheckOptions(kind, OptionPlace::kMapping, mapping, true).ok());
  FUZZ_CHECK(merged.size() == server.size() + mapping.size());
  OptionList plain;
  OptionList secrets;
  for (const auto& [name, value] : merged) {
    FUZZ_CHECK(CanonicalOption(kind, name) == name);
    const OptionRule& rule = RuleOf(kind, name);
    FUZZ_CHECK(rule.group == OptionGroup::kOwner || rule.group == OptionGroup::kSecret ||
               rule.group == OptionGroup::kSuperuser);
    CheckMergedValue(rule, value);
    (rule.group == OptionGroup::kSecret ? secrets : plain).emplace_back(name, value);
  }
  Options again;
  FUZZ_CHECK(MergeOptions(kind, plain, secrets, &again).ok());
  FUZZ_CHECK(again == merged);
  return 0;
}
