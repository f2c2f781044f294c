// Options of outbox_kafka [-].
#pragma once

#include <span>

#include "sink/options.h"

namespace outbox::sink::kafka {

std::span<const OptionRule> OptionRules();

}  // namespace outbox::sink::kafka
