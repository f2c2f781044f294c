// What a route may say [P]. Each function throws UserError with SQLSTATE, DETAIL and HINT for the person who wrote it,
// and hands back the value as it is stored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "admin/query.h"
#include "format/route_spec.h"

namespace outbox::admin {

std::string CheckRouteName(const Cell& name);

// `argument` is the name of the argument, for the message. Doubles are dropped.
std::vector<std::string> CheckPatterns(const char* argument, const std::vector<Cell>& patterns);

void CheckTopicTemplate(format::DestinationKind kind, const std::string& text);
void CheckKeyTemplate(const std::string& text);

inline constexpr int kMaxLanes = 64;
void CheckLanes(int64_t lanes);

// `options`: pairs of jsonb_each, as name, jsonb type and text value. The result is a jsonb object in text form.
std::string CheckRouteOptions(format::DestinationKind kind, const std::vector<Row>& options);

}  // namespace outbox::admin
