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

pg::UserError MatchesNothing(const char* what, const char* why) {
  return pg::UserError{ERRCODE_INVALID_PARAMETER_VALUE, std::string(what) + ": no event would match", why,
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

void RequireOrder(std::optional<int64> since, std::optional<int64> until) {
  if (since && *since >= kLast) {
    throw MatchesNothing("since is infinity", "It is the first time that is taken.");
  }
  if (until && *until <= kFirst) {
    throw MatchesNothing("until is -infinity", "It is the first time that is not taken any more.");
  }
  if (since && until && *since >= *until) {
    throw pg::UserError{ERRCODE_INVALID_PARAMETER_VALUE, "since must be before until",
                        "It is " + UnixMicrosText(*since) + ", and until is " + UnixMicrosText(*until) + ".",
                        "since is the first time that is taken, until the first that is not taken any more."};
  }
}

}  // namespace outbox::admin
