#include "admin/common/procedure_arguments.h"

#include <algorithm>
#include <cstdlib>

#include "pg/shared.h"
#include "pg/time_text.h"

extern "C" {
#include "utils/timestamp.h"
}

namespace outbox::admin {

bool BooleanArgument(FunctionCallInfo fcinfo, int number, const char* name) {
  if (PG_ARGISNULL(number)) {
    throw pg::UserError{ERRCODE_NULL_VALUE_NOT_ALLOWED, std::string(name) + " must not be null", "",
                        "Pass true or false."};
  }
  return PG_GETARG_BOOL(number);
}

double RateArgument(FunctionCallInfo fcinfo, int number) {
  Cell rate = TextArgument(fcinfo, number);
  double value = rate ? std::strtod(rate->c_str(), nullptr) : 0;
  if (rate && !(value >= 0.001 && value <= 1e9)) {
    throw pg::UserError{ERRCODE_INVALID_PARAMETER_VALUE, "per_second must be between 0.001 and 1000000000",
                        "It is " + *rate + ".", "Pass NULL for no limit."};
  }
  return value;
}

namespace {

// The years 0001 and 9999: what UnixMicrosText can write.
constexpr int64 kFirst = -62135596800LL * USECS_PER_SEC;
constexpr int64 kLast = 253402300799LL * USECS_PER_SEC;

pg::UserError MatchesNothing(const std::string& what, const char* why) {
  return pg::UserError{ERRCODE_INVALID_PARAMETER_VALUE, what + ": no event would match", why,
                       "Leave it out where there is no such limit."};
}

}  // namespace

std::optional<int64> TimeArgument(FunctionCallInfo fcinfo, int number) {
  if (PG_ARGISNULL(number)) {
    return std::nullopt;
  }
  return std::clamp(SaturatedUnixMicros(PG_GETARG_TIMESTAMPTZ(number)), kFirst, kLast);
}

Cell TimeTextArgument(FunctionCallInfo fcinfo, int number) {
  if (PG_ARGISNULL(number)) {
    return Cell();
  }
  const TimestampTz time = PG_GETARG_TIMESTAMPTZ(number);
  return Cell(pg::Guard([time] { return pg::UtcText(time); }));
}

void RequireOrder(FunctionCallInfo fcinfo, int since, int until) {
  const std::optional<int64> first = TimeArgument(fcinfo, since);
  const std::optional<int64> end = TimeArgument(fcinfo, until);
  // As it was given, for it may be beyond what is compared.
  if (first && *first >= kLast) {
    throw MatchesNothing("since is " + TimeTextArgument(fcinfo, since).value(), "It is the first time that is taken.");
  }
  if (end && *end <= kFirst) {
    throw MatchesNothing("until is " + TimeTextArgument(fcinfo, until).value(),
                         "It is the first time that is not taken any more.");
  }
  if (first && end && *first >= *end) {
    throw pg::UserError{ERRCODE_INVALID_PARAMETER_VALUE, "since must be before until",
                        "It is " + UnixMicrosText(*first) + ", and until is " + UnixMicrosText(*end) + ".",
                        "since is the first time that is taken, until the first that is not taken any more."};
  }
}

}  // namespace outbox::admin
