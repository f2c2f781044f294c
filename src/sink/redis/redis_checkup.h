// Trying a Redis server out [-]: the greeting of RedisSink, then one look at the stream, list or channel. See
// sink/checkup.h.
#pragma once

#include <vector>

#include "sink/checkup.h"

namespace outbox::sink::redis {

std::vector<CheckupRow> CheckUp(const CheckupRequest& request);

}  // namespace outbox::sink::redis
