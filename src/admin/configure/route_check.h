// Checks of a route's definition [P]. Each function throws UserError with SQLSTATE, DETAIL and HINT, and returns the
// value as it is stored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "admin/common/query.h"
#include "format/format.h"
#include "sink/kind.h"

namespace outbox::admin {

// `argument` is the name of the argument, for the message. Duplicates are dropped.
std::vector<std::string> CheckPatterns(const char* argument, const std::vector<Cell>& patterns);

void CheckTopicTemplate(const sink::SinkKind& kind, const std::string& text);
void CheckKeyTemplate(const std::string& text);

inline constexpr int kMaxLanes = 64;
void CheckLanes(int64_t lanes);

// What is done with events that the destination refuses, in the form of the columns of outbox.route; nothing: stays.
struct PolicyArguments {
  Cell on_failure;
  Cell max_attempts;
  Cell backoff_base;
  Cell backoff_cap;
};
// From argument number `first` on. NULL where `old` (the route as it is, or nothing) or a default takes its place.
PolicyArguments CheckPolicy(FunctionCallInfo fcinfo, int first, const PolicyArguments& old);

const format::Format& CheckFormat(const Cell& name);

// `options`: pairs of jsonb_each, as name, jsonb type, text value and JSON value: each alone, and whether a route to
// such a destination can have the format with them. The result is a jsonb object in text form.
std::string CheckRouteOptions(const sink::SinkKind& kind, const format::Format& format,
                              const std::vector<Row>& options);

}  // namespace outbox::admin
