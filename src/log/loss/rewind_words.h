// What is told of a loss, in the log of the server and in outbox.audit [P].
#pragma once

#include <string>
#include <string_view>

#include "base/lane_id.h"
#include "log/loss/finding.h"

#define OUTBOX_NOT_SENT ", is not sent: outbox.seek() or outbox.replay() sends it"

namespace outbox::log {

// What is missing and is not sent again without an operator.
std::string TellBeyond(const Finding& finding);

std::string Reason(const Finding& finding, bool rewound);

std::string Describe(const LaneId& lane, const Finding& finding, bool rewound);

// Plain.
void WriteAudit(const LaneId& lane, std::string_view server_run, const Finding& finding, bool rewound,
                const std::string& reason);

}  // namespace outbox::log
