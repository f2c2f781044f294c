// The settings under which statements of outbox run, whatever those of the session, the role or the database are [P].
#pragma once

#include <span>

#include "pg/prelude.h"

namespace outbox::pg {

struct PinnedSetting {
  const char* name;
  const char* value;
};

// Where they find what they name without a schema: operators, built-in functions and types.
inline constexpr const char* kSearchPath = "pg_catalog, pg_temp";

enum class Plan : unsigned char {
  kUsual,
  // For ranges of outbox_internal.log by xid: the day tables are never analyzed, so the planner is told to walk the
  // index. It then reads no more than it is asked for, where a bitmap would first collect a whole backlog.
  kIndexOrder,
  // For a few rows by their keys: index by index, row by row. The table may have grown by a million rows since its
  // statistics were updated, or since the plan was made.
  kByKey,
};

// What statements, and the text that goes in and out, mean; and how they are planned.
std::span<const PinnedSetting> StatementSettings(Plan plan);

// Pins them, until AtEOXact_GUC(false, the level that is returned), or the end of the transaction or savepoint after an
// error. Plain.
int Pin(std::span<const PinnedSetting> settings);

}  // namespace outbox::pg
