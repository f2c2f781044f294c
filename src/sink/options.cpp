#include "sink/options.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/near_names.h"
#include "sink/kind.h"
#include "sink/option_rules.h"
#include "sink/option_value.h"

namespace outbox::sink {
namespace {

constexpr const char* kInvalidName = "HV00D";
constexpr const char* kForbidden = "42501";
constexpr const char* kDuplicate = "42710";
constexpr size_t kListedNames = 12;

const char* PlaceName(OptionPlace place) {
  return place == OptionPlace::kServer ? "server" : "user mapping";
}

std::string Quoted(std::string_view name) {
  return "\"" + std::string(name) + "\"";
}

const OptionRule& Resolve(const SinkKind& kind, const OptionRule& rule) {
  return rule.canonical == nullptr ? rule : *FindOption(kind, rule.canonical);
}

bool Offered(OptionPlace place, OptionGroup group) {
  return place == OptionPlace::kMapping ? group == OptionGroup::kSecret
                                        : group == OptionGroup::kOwner || group == OptionGroup::kSuperuser;
}

OptionProblem Unknown(const SinkKind& kind, OptionPlace place, std::string_view name) {
  const std::string folded = FoldedName(name);
  for (const ForeignOption& foreign : kind.foreign_options) {
    if (folded == FoldedName(foreign.name)) {
      return {kInvalidName, "unknown option " + Quoted(name) + " for " + kind.wrapper, "", foreign.hint};
    }
  }
  std::vector<std::string_view> known;
  for (const OptionRule& rule : OptionRules(kind)) {
    const OptionGroup group = Resolve(kind, rule).group;
    if (group != OptionGroup::kNever && group != OptionGroup::kConsumer) {
      known.emplace_back(rule.name);
    }
  }
  OptionProblem problem{kInvalidName, "unknown option " + Quoted(name) + " for " + kind.wrapper, "",
                        DidYouMean(name, known)};
  if (!problem.hint.empty()) {
    return problem;
  }
  std::vector<std::string> names;
  for (const OptionRule& rule : OptionRules(kind)) {
    if (rule.canonical == nullptr && Offered(place, rule.group)) {
      names.emplace_back(rule.name);
    }
  }
  if (names.empty()) {
    problem.detail = std::string("A ") + PlaceName(place) + " of " + kind.wrapper + " takes no options.";
  } else if (kind.options_hint == nullptr || names.size() <= kListedNames) {
    problem.hint = std::string("Options of a ") + PlaceName(place) + " are: ";
    for (size_t i = 0; i < names.size(); ++i) {
      problem.hint += (i == 0 ? "" : ", ") + names[i];
    }
    problem.hint += ".";
  } else {
    problem.hint = kind.options_hint;
  }
  return problem;
}

OptionProblem Misplaced(const SinkKind& kind, OptionPlace place, std::string_view name, const OptionRule& rule) {
  std::string quoted = Quoted(name);
  switch (rule.group) {
    case OptionGroup::kFixed:
      return {kInvalidName, "option " + quoted + " is set by outbox and cannot be changed", rule.help, "Leave it out."};
    case OptionGroup::kNever:
      return {kInvalidName, "option " + quoted + " is not allowed", rule.help, ""};
    case OptionGroup::kConsumer:
      return {kInvalidName, "option " + quoted + " is for consumers", "outbox only produces.", ""};
    case OptionGroup::kSecret:
      if (place == OptionPlace::kServer) {
        return {kInvalidName, "option " + quoted + " cannot be set on a server",
                "Options of a server can be read by everybody.",
                "Use CREATE USER MAPPING FOR PUBLIC SERVER ... OPTIONS (" + quoted +
                    " ...), with another value: the server's log may have this one now."};
      }
      return {};
    default:
      if (place == OptionPlace::kMapping) {
        return {kInvalidName, "option " + quoted + " cannot be set in a user mapping",
                std::string("A user mapping of ") + kind.wrapper + " holds secrets only.",
                "Set it on the server, with ALTER SERVER."};
      }
      return {};
  }
}

bool IsAmong(std::string_view value, std::string_view choices) {
  while (!choices.empty()) {
    const std::string_view choice = choices.substr(0, choices.find('|'));
    if (choice == value) {
      return true;
    }
    choices.remove_prefix(std::min(choices.size(), choice.size() + 1));
  }
  return false;
}

// Whether only a superuser may choose this value of an owner's option.
bool NeedsSuperuser(const OptionRule& rule, std::string_view canonical_value) {
  return rule.group == OptionGroup::kSuperuser || (rule.reserved != nullptr && IsAmong(canonical_value, rule.reserved));
}

// *canonical_name stays empty where the option is as it is anyway.
OptionProblem Check(const SinkKind& kind, OptionPlace place, std::string_view name, std::string_view value,
                    bool is_superuser, std::string* canonical_name, std::string* canonical_value) {
  const OptionRule* found = FindOption(kind, name);
  if (found == nullptr) {
    return Unknown(kind, place, name);
  }
  const OptionRule& rule = Resolve(kind, *found);
  // As copied from elsewhere.
  if (rule.fixed_to != nullptr && place == OptionPlace::kServer && IsAmong(value, rule.fixed_to)) {
    return {};
  }
  OptionProblem problem = Misplaced(kind, place, name, rule);
  if (!problem.ok()) {
    return problem;
  }
  std::string expected;
  bool good = CheckValue(rule, value, canonical_value, &expected);
  // Rights first: a user without them learns nothing about values.
  if (!is_superuser && NeedsSuperuser(rule, good ? std::string_view(*canonical_value) : value)) {
    if (rule.group == OptionGroup::kSuperuser) {
      return {kForbidden, "only a superuser may set option " + Quoted(name),
              "The option " + std::string(rule.help) + ".", rule.instead == nullptr ? "" : rule.instead};
    }
    return {kForbidden, "only a superuser may set option " + Quoted(name) + " to " + Quoted(*canonical_value),
            rule.why_reserved, ""};
  }
  if (!good) {
    OptionProblem bad{kInvalidValue, "invalid value for option " + Quoted(name), "The value must be " + expected + ".",
                      ""};
    if (rule.group != OptionGroup::kSecret && rule.type != ValueType::kPem && value.size() <= 100 &&
        std::all_of(value.begin(), value.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x20; })) {
      bad.message += ": " + Quoted(value);
    }
    return bad;
  }
  *canonical_name = rule.name;
  return {};
}

// Checks a server's and a mapping's options against each other.
OptionProblem CheckMerged(const SinkKind& kind, const Options& options) {
  const RequiredOption& required = kind.required;
  if (required.name != nullptr && !HasOption(options, required.name)) {
    return {kInvalidValue, "option " + Quoted(required.name) + " is missing", "",
            "Use ALTER SERVER ... OPTIONS (ADD " + Quoted(required.name) + " '" + required.example + "')."};
  }
  return kind.check_merged == nullptr ? OptionProblem{} : kind.check_merged(options);
}

OptionProblem CheckList(const SinkKind& kind, OptionPlace place, const OptionList& list, bool is_superuser,
                        Options* canonical) {
  std::map<std::string, std::string> spelled;  // canonical name -> as written
  for (const auto& [name, value] : list) {
    std::string canonical_name;
    std::string canonical_value;
    OptionProblem problem = Check(kind, place, name, value, is_superuser, &canonical_name, &canonical_value);
    if (!problem.ok()) {
      return problem;
    }
    if (canonical_name.empty()) {
      continue;
    }
    auto [other, fresh] = spelled.try_emplace(canonical_name, name);
    if (!fresh) {
      return {kDuplicate, "option " + Quoted(name) + " is given twice",
              Quoted(other->second) + " and " + Quoted(name) + " are names of the same option.", ""};
    }
    (*canonical)[canonical_name] = canonical_value;
  }
  return kind.check_together == nullptr ? OptionProblem{} : kind.check_together(*canonical);
}

}  // namespace

std::span<const OptionRule> OptionRules(const SinkKind& kind) {
  return kind.options();
}

const OptionRule* FindOption(const SinkKind& kind, std::string_view name) {
  for (const OptionRule& rule : OptionRules(kind)) {
    if (name == rule.name) {
      return &rule;
    }
  }
  return nullptr;
}

std::string CanonicalOption(const SinkKind& kind, std::string_view name) {
  const OptionRule* rule = FindOption(kind, name);
  return std::string(rule == nullptr || rule->canonical == nullptr ? name : rule->canonical);
}

OptionProblem CheckOption(const SinkKind& kind, OptionPlace place, std::string_view name, std::string_view value,
                          bool is_superuser) {
  std::string canonical_name;
  std::string canonical_value;
  return Check(kind, place, name, value, is_superuser, &canonical_name, &canonical_value);
}

OptionProblem CheckOptions(const SinkKind& kind, OptionPlace place, const OptionList& options, bool is_superuser) {
  Options canonical;
  return CheckList(kind, place, options, is_superuser, &canonical);
}

OptionProblem MergeOptions(const SinkKind& kind, const OptionList& server, const OptionList& mapping, Options* merged) {
  Options result;
  Options secrets;
  OptionProblem problem = CheckList(kind, OptionPlace::kServer, server, true, &result);
  if (problem.ok()) {
    problem = CheckList(kind, OptionPlace::kMapping, mapping, true, &secrets);
  }
  if (problem.ok()) {
    result.merge(secrets);  // no name is allowed in both
    problem = CheckMerged(kind, result);
  }
  if (problem.ok()) {
    *merged = std::move(result);
  }
  return problem;
}

std::string TextOption(const Options& options, const std::string& name, std::string_view fallback) {
  auto found = options.find(name);
  return found == options.end() ? std::string(fallback) : found->second;
}

int64_t IntegerOption(const Options& options, const std::string& name, int64_t fallback) {
  auto found = options.find(name);
  if (found != options.end()) {
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), fallback);
  }
  return fallback;
}

bool BoolOption(const Options& options, const std::string& name, bool fallback) {
  auto found = options.find(name);
  return found == options.end() ? fallback : found->second == "true";
}

}  // namespace outbox::sink
