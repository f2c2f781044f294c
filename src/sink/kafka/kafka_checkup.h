// Trying a Kafka cluster out [-]: a client of its own that connects, logs in, asks for the topic, for its replicas, and
// for each of its leaders, and writes nothing. See sink/checkup.h.
#pragma once

#include <vector>

#include "sink/checkup.h"

namespace outbox::sink::kafka {

// Leaves its client to the end of the process: the library takes seconds to let go of one that waits for something.
std::vector<CheckupRow> CheckUp(const CheckupRequest& request);

}  // namespace outbox::sink::kafka
