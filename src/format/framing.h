// Route option `framing`: what schema registries put before a payload [-]. For formats that send the payload as it is.
#pragma once

#include <memory>

#include "format/format.h"

namespace outbox::format {

// "confluent": a zero byte and the schema's id in four bytes, the highest first, then the payload. The id is the
// event's header schema_id, a number; an event with a payload and without an id is refused.
inline constexpr sink::RouteOption kFramingOption = {.name = "framing", .choices = "confluent"};

// The encoder itself if the route has no such option.
std::unique_ptr<Encoder> WithFraming(const Use& use, std::unique_ptr<Encoder> encoder);

}  // namespace outbox::format
