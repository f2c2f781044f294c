// What is told of a loss, in the log of the server and in outbox.audit [P].
#pragma once

#include <string>
#include <string_view>

#include "base/lane_id.h"
#include "log/loss/finding.h"

namespace outbox::log {

std::string Reason(const Finding& finding, bool rewound);

std::string Describe(const LaneId& lane, const Finding& finding, bool rewound);

// The same in little room: first what somebody has to do.
std::string Brief(const LaneId& lane, const Finding& finding, bool rewound);

// Plain.
void WriteAudit(const LaneId& lane, std::string_view server_run, const Finding& finding, bool rewound,
                const std::string& reason);

}  // namespace outbox::log
