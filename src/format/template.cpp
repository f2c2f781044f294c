#include "format/template.h"

#include <algorithm>

#include "base/letter_case.h"

namespace outbox::format {

namespace {

bool IsUpper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool IsLower(char c) {
  return c >= 'a' && c <= 'z';
}
bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsSeparator(char c) {
  return c == '-' || c == '_' || c == ' ';
}

std::optional<Template> Refuse(size_t position, std::string message, std::string hint, TemplateError* error) {
  error->position = position;
  error->message = std::move(message);
  error->hint = std::move(hint);
  return std::nullopt;
}

std::string Quoted(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

bool TakesId(const sink::TopicTemplateRules* rules) {
  return rules == nullptr || rules->aggregate_id;
}

const char* NamesHint(const sink::TopicTemplateRules* rules) {
  return TakesId(rules)
             ? "Names are {aggregate_type}, {aggregate_id} and {event_type}, with :kebab or :lower if wanted."
             : "Names are {aggregate_type} and {event_type}, with :kebab or :lower if wanted.";
}

constexpr char kBraceHint[] = "A name stands between \"{\" and \"}\"; write \"{{\" or \"}}\" for a literal brace.";

}  // namespace

std::optional<Template> Template::ParseTopic(std::string_view text, const sink::TopicTemplateRules& rules,
                                             TemplateError* error) {
  return Parse(text, &rules, error);
}

std::optional<Template> Template::ParseKey(std::string_view text, TemplateError* error) {
  return Parse(text, nullptr, error);
}

// `rules`: nullptr for a key, which takes everything.
std::optional<Template> Template::Parse(std::string_view text, const sink::TopicTemplateRules* rules,
                                        TemplateError* error) {
  if (text.empty()) {
    return Refuse(0, "template is empty", NamesHint(rules), error);
  }
  Template parsed;
  std::string literal;
  const auto finish_literal = [&] {
    if (!literal.empty()) {
      parsed.parts_.push_back({Name::kLiteral, Modifier::kNone, std::move(literal)});
      literal.clear();
    }
  };
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    const bool doubled = at + 1 < text.size() && text[at + 1] == c;
    if (c != '{' || doubled) {
      if (c == '}' && !doubled) {
        return Refuse(at, "template has a \"}\" without a \"{\"", kBraceHint, error);
      }
      if (rules != nullptr && !rules->literal(c)) {
        return Refuse(at, "template has a character that is not allowed in a topic name", rules->literals, error);
      }
      literal += c;
      at += (c == '{' || c == '}') ? 2 : 1;
      continue;
    }
    const size_t close = text.find('}', at);
    if (close == std::string_view::npos) {
      return Refuse(at, "template has a \"{\" that is not closed", kBraceHint, error);
    }
    Part part;
    if (!ParsePart(text.substr(at + 1, close - at - 1), at, rules, &part, error)) {
      return std::nullopt;
    }
    finish_literal();
    parsed.parts_.push_back(std::move(part));
    at = close + 1;
  }
  finish_literal();
  parsed.uses_aggregate_id_ = std::any_of(parsed.parts_.begin(), parsed.parts_.end(),
                                          [](const Part& part) { return part.name == Name::kAggregateId; });
  parsed.is_aggregate_id_ =
      parsed.parts_.size() == 1 && parsed.uses_aggregate_id_ && parsed.parts_[0].modifier == Modifier::kNone;
  return parsed;
}

// What stands between the brace at `at` and the next one: a name, perhaps with a modifier.
bool Template::ParsePart(std::string_view inside, size_t at, const sink::TopicTemplateRules* rules, Part* part,
                         TemplateError* error) {
  const size_t colon = inside.find(':');
  const std::string_view name = inside.substr(0, colon);
  if (name == "aggregate_type") {
    part->name = Name::kAggregateType;
  } else if (name == "event_type") {
    part->name = Name::kEventType;
  } else if (name == "aggregate_id") {
    if (!TakesId(rules)) {
      Refuse(at, rules->no_aggregate_id, rules->no_aggregate_id_hint, error);
      return false;
    }
    part->name = Name::kAggregateId;
  } else {
    Refuse(at + 1, "unknown name " + Quoted(name) + " in template", NamesHint(rules), error);
    return false;
  }
  if (colon == std::string_view::npos) {
    return true;
  }
  const std::string_view modifier = inside.substr(colon + 1);
  if (modifier == "kebab") {
    part->modifier = Modifier::kKebab;
  } else if (modifier == "lower") {
    part->modifier = Modifier::kLower;
  } else {
    Refuse(at + 2 + colon, "unknown modifier " + Quoted(modifier) + " in template",
           "Modifiers are :kebab and :lower, one to a name.", error);
    return false;
  }
  return true;
}

void Template::Expand(std::string_view aggregate_type, std::string_view aggregate_id, std::string_view event_type,
                      std::string* out) const {
  for (const Part& part : parts_) {
    std::string_view value = part.literal;
    switch (part.name) {
      case Name::kLiteral:
        break;
      case Name::kAggregateType:
        value = aggregate_type;
        break;
      case Name::kAggregateId:
        value = aggregate_id;
        break;
      case Name::kEventType:
        value = event_type;
        break;
    }
    switch (part.modifier) {
      case Modifier::kNone:
        out->append(value);
        break;
      case Modifier::kLower:
        AppendLower(value, out);
        break;
      case Modifier::kKebab:
        AppendKebab(value, out);
        break;
    }
  }
}

namespace {

// `inside`: what stands between braces, as ParsePart() has taken it.
void AppendPatternOfPart(std::string_view inside, std::string_view aggregate_type, std::string_view event_type,
                         std::string* pattern) {
  const size_t colon = std::min(inside.find(':'), inside.size());
  const std::string_view name = inside.substr(0, colon);
  const std::string_view modifier = inside.substr(colon);
  const std::string_view value = name == "aggregate_type" ? aggregate_type : name == "event_type" ? event_type : "*";
  if (modifier == ":lower") {
    AppendLower(value, pattern);
  } else if (modifier != ":kebab") {
    pattern->append(value);
  } else if (value.find('*') == std::string_view::npos) {
    AppendKebab(value, pattern);
  } else {
    *pattern += '*';  // where hyphens come depends on what a '*' stands for
  }
}

}  // namespace

std::string PatternOf(std::string_view text, std::string_view aggregate_type, std::string_view event_type) {
  std::string pattern;
  for (size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    const bool doubled = i + 1 < text.size() && text[i + 1] == c;
    if (c == '{' && !doubled) {
      const size_t end = std::min(text.find('}', i), text.size());
      AppendPatternOfPart(text.substr(i + 1, end - i - 1), aggregate_type, event_type, &pattern);
      i = end;
    } else {
      pattern += c;
      i += (c == '{' || c == '}') && doubled ? 1 : 0;
    }
  }
  return pattern;
}

void AppendKebab(std::string_view text, std::string* out) {
  const size_t start = out->size();
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool hyphenated = out->size() == start || out->back() == '-';
    if (IsSeparator(c)) {
      if (!hyphenated) {
        out->push_back('-');
      }
      continue;
    }
    if (IsUpper(c) && i > 0 && !hyphenated) {
      const char before = text[i - 1];
      const bool next_is_lower = i + 1 < text.size() && IsLower(text[i + 1]);
      if (IsLower(before) || IsDigit(before) || (IsUpper(before) && next_is_lower)) {
        out->push_back('-');
      }
    }
    out->push_back(Lower(c));
  }
  if (out->size() > start && out->back() == '-' && IsSeparator(text.back())) {
    out->pop_back();
  }
}

void AppendLower(std::string_view text, std::string* out) {
  for (char c : text) {
    out->push_back(Lower(c));
  }
}

}  // namespace outbox::format
