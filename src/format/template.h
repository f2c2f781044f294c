// Topic and key templates [-]: literal text and {aggregate_type}, {aggregate_id}, {event_type}, each with at most one
// modifier: `:lower` (ASCII letters to lower case) or `:kebab` (OrderLine -> order-line). "{{" and "}}" are literal
// braces.
//
// Parsed when a route is written (admin/ shows the error to its user) and again when a worker loads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sink/kind.h"

namespace outbox::format {

// Lower-case primary message and a sentence as hint, ready for ereport.
struct TemplateError {
  size_t position = 0;  // byte offset into the template where the trouble starts
  std::string message;
  std::string hint;
};

class Template {
 public:
  // Returns nullopt, and fills *error, if `text` is no template of that use. Topics: as the kind of destination takes
  // them (SinkKind::topic_template).
  static std::optional<Template> ParseTopic(std::string_view text, const sink::TopicTemplateRules& rules,
                                            TemplateError* error);
  static std::optional<Template> ParseKey(std::string_view text, TemplateError* error);

  // The expansion depends on the aggregate id (so it cannot be cached by type, and is NULL where the id is).
  bool uses_aggregate_id() const { return uses_aggregate_id_; }
  // The template is exactly "{aggregate_id}".
  bool is_aggregate_id() const { return is_aggregate_id_; }

  bool operator==(const Template&) const = default;

  // Appends the expansion. A NULL aggregate_id counts as empty here; callers look at uses_aggregate_id() first.
  void Expand(std::string_view aggregate_type, std::string_view aggregate_id, std::string_view event_type,
              std::string* out) const;

 private:
  static std::optional<Template> Parse(std::string_view text, const sink::TopicTemplateRules* rules,
                                       TemplateError* error);

  enum class Name : uint8_t { kLiteral, kAggregateType, kAggregateId, kEventType };
  enum class Modifier : uint8_t { kNone, kLower, kKebab };
  struct Part {
    Name name = Name::kLiteral;
    Modifier modifier = Modifier::kNone;
    std::string literal;
    bool operator==(const Part&) const = default;
  };
  // Returns false and sets *error if it is no part.
  static bool ParsePart(std::string_view inside, size_t at, const sink::TopicTemplateRules* rules, Part* part,
                        TemplateError* error);

  std::vector<Part> parts_;
  bool uses_aggregate_id_ = false;
  bool is_aggregate_id_ = false;
};

// A pattern (pattern.h) that all names match which the template, as it was written and checked before, can give events
// whose types match these patterns.
std::string PatternOf(std::string_view text, std::string_view aggregate_type = "*", std::string_view event_type = "*");

// Appends `text` in kebab case: a hyphen where a lower-case letter or digit meets an upper-case letter, or where the
// last of several upper-case letters begins a word (HTTPServer -> http-server); '_', ' ' and '-' become one hyphen;
// letters to lower case (ASCII). Other bytes stay as they are.
void AppendKebab(std::string_view text, std::string* out);
void AppendLower(std::string_view text, std::string* out);

}  // namespace outbox::format
