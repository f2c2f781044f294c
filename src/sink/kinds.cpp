#include "base/topic_name.h"
#include "sink/kind.h"

// Every kind of destination: KIND(x) is `kKind` of namespace x, in src/sink/x/kind.cpp.
#define OUTBOX_SINK_KINDS(KIND) \
  KIND(kafka)                   \
  KIND(redis)                   \
  KIND(log)                     \
  KIND(null)                    \
  /* the last */

namespace outbox::sink {

#define OUTBOX_DECLARE_KIND(name) \
  namespace name {                \
  extern const SinkKind kKind;    \
  }
OUTBOX_SINK_KINDS(OUTBOX_DECLARE_KIND)
#undef OUTBOX_DECLARE_KIND

namespace {

#define OUTBOX_LIST_KIND(name) &name::kKind,
constexpr const SinkKind* kKinds[] = {OUTBOX_SINK_KINDS(OUTBOX_LIST_KIND)};
#undef OUTBOX_LIST_KIND

std::span<const OptionRule> NoOptions() {
  return {};
}

}  // namespace

constinit const TopicTemplateRules kFreeTopicTemplate = {
    .aggregate_id = true,
    .no_aggregate_id = nullptr,
    .no_aggregate_id_hint = nullptr,
    .literal = IsFreeTopicCharacter,
    .literals = "Zero bytes and line ends are not allowed.",
    .bad_name = BadFreeTopic,
    .names = "A name has 1 to 512 bytes, without NUL and line breaks.",
};

constinit const TopicTemplateRules kPortableTopicTemplate = {
    .aggregate_id = false,
    .no_aggregate_id = "{aggregate_id} is not allowed in a Kafka topic template",
    .no_aggregate_id_hint = "A topic per aggregate overloads the cluster. The key template is the place for it.",
    .literal = IsPortableTopicCharacter,
    .literals = "Kafka allows letters, digits, \".\", \"_\" and \"-\".",
    .bad_name = BadPortableTopic,
    .names = "Kafka topics have 1 to 249 of the characters A-Z, a-z, 0-9, dot, underscore and hyphen.",
};

constinit const SinkKind kUnknownKind = {
    .wrapper = "",
    .title = "an unknown destination",
    .options = NoOptions,
    .bad_topic = BadFreeTopic,
};

std::span<const SinkKind* const> Kinds() {
  return kKinds;
}

const SinkKind* FindKind(std::string_view wrapper) {
  for (const SinkKind* kind : kKinds) {
    if (wrapper == kind->wrapper) {
      return kind;
    }
  }
  return nullptr;
}

std::string_view RouteOptionValue(const OptionList& options, std::string_view name) {
  for (const auto& [option, value] : options) {
    if (option == name) {
      return value;
    }
  }
  return {};
}

std::string WrapperNames() {
  std::string names;
  for (const SinkKind* kind : kKinds) {
    names += names.empty() ? "" : kind == std::end(kKinds)[-1] ? " or " : ", ";
    names += kind->wrapper;
  }
  return names;
}

}  // namespace outbox::sink
