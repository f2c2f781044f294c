// Arguments of the procedures [P]; each throws UserError with the argument's name.
#pragma once

#include "admin/common/query.h"

namespace outbox::admin {

bool BooleanArgument(FunctionCallInfo fcinfo, int number, const char* name);
// NULL or greater than zero; 0: NULL, no limit.
double RateArgument(FunctionCallInfo fcinfo, int number);
// Unix microseconds; nothing: NULL. Infinities are the ends of time.
std::optional<int64> TimeArgument(FunctionCallInfo fcinfo, int number);
// As it was given, in the one form in which times are kept; nothing: NULL.
Cell TimeTextArgument(FunctionCallInfo fcinfo, int number);
// Refuses a time, given as the arguments of these numbers, that ends before it begins, or as it does, and one that
// begins or ends where nothing is.
void RequireOrder(FunctionCallInfo fcinfo, int since, int until);

}  // namespace outbox::admin
