// Since when the rows that a (side) lane writes down are of one run of its server [P behind, no Postgres type in
// sight].
#pragma once

#include <cstdint>
#include <string>

namespace outbox::log {

struct RunPeriod {
  bool known = false;
  std::string server_run;
  int64_t after = 0;  // outbox_internal.progress.run_after as it is
};

}  // namespace outbox::log
