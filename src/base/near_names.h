// What a misspelt name may have meant [-].
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace outbox {

// "Did you mean "a", "b" or "c"?", of the nearest of `names` (each in static storage, or outliving the call); "": none
// is near. Case, and "_" or "-" for a point, make no difference.
std::string DidYouMean(std::string_view name, const std::vector<std::string_view>& names);

// One spelling for names that differ only so.
std::string FoldedName(std::string_view name);

}  // namespace outbox
