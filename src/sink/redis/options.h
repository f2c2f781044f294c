// Options of outbox_redis [-].
#pragma once

#include <span>

#include "sink/options.h"

namespace outbox::sink::redis {

std::span<const OptionRule> OptionRules();

}  // namespace outbox::sink::redis
