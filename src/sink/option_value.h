// Is this text a value of that type [-]. For options.cpp.
#pragma once

#include <string>
#include <string_view>

#include "sink/options.h"

namespace outbox::sink {

// True: `*canonical` is the value as a sink gets it (booleans true or false, no blanks around hosts, choices spelled as
// in the rule). False: `*expected` completes "must be ...".
bool CheckValue(const OptionRule& rule, std::string_view value, std::string* canonical, std::string* expected);

}  // namespace outbox::sink
