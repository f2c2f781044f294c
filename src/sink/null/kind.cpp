// Nothing as a destination: see README.md and sink/kind.h.
#include "sink/kind.h"

#include "base/topic_name.h"
#include "sink/option_rules.h"

namespace outbox::sink::null {

namespace {

std::span<const OptionRule> OptionRules() {
  static constexpr OptionRule kRules[] = {
      rules::Integer(OptionGroup::kOwner, "latency", 0, 60000,
                     "milliseconds after which a record is acknowledged (default 0)"),
  };
  return kRules;
}

}  // namespace

extern const SinkKind kKind;
constinit const SinkKind kKind = {
    .wrapper = "outbox_null",
    .title = "nowhere",
    .program = "outbox-sink-null",
    .options = OptionRules,
    .bad_topic = BadFreeTopic,
};

}  // namespace outbox::sink::null
