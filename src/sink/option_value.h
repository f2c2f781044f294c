// Checks whether a text is a value of an option's type [-]. For options.cpp.
#pragma once

#include <string>
#include <string_view>

#include "sink/options.h"

namespace outbox::sink {

// If it is, returns true and sets `*canonical` to the value as a sink gets it (booleans true or false, no blanks around
// hosts, choices spelled as in the rule). If not, returns false and sets `*expected`, which completes "must be ...".
bool CheckValue(const OptionRule& rule, std::string_view value, std::string* canonical, std::string* expected);

}  // namespace outbox::sink
