#include "admin/lookup/edited_events.h"

#include <optional>

#include "admin/common/operation.h"

namespace outbox::admin {

EditedEvents::EditedEvents(const std::string& route) {
  for (const Row& row : RunSql(Access::kRead,
                               "SELECT event_id FROM outbox.audit WHERE action = 'retry' AND route = $1 AND detail ? "
                               "'edited' AND event_id IS NOT NULL",
                               {route})) {
    if (const std::optional<Uuid> id = ParseUuid(row[0].value()); id) {
      ids_.insert(*id);
    }
  }
}

void TellEdited(int64 events, const char* hint) {
  if (events > 0) {
    Notice("of these edited by retry() before: " + std::to_string(events) + (events == 1 ? " event" : " events"),
           "They are sent as they were emitted, under the same ids: the log has no edits.", hint);
  }
}

}  // namespace outbox::admin
