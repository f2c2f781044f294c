#include "sink/option_rules.h"

namespace outbox::sink {

std::span<const OptionRule> LogOptionRules() {
  using G = OptionGroup;
  static constexpr OptionRule kRules[] = {
      rules::Integer(G::kOwner, "body_limit", 0, 100000, "bytes of each payload to print (default 1000)"),
  };
  return kRules;
}

}  // namespace outbox::sink
