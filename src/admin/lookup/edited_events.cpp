#include "admin/lookup/edited_events.h"

#include <optional>

#include "admin/common/operation.h"
#include "base/count_text.h"

namespace outbox::admin {

EditedEvents::EditedEvents(const std::string& route) {
  for (const Row& row : RunSql(Access::kRead,
                               "SELECT a.event_id FROM outbox.route r CROSS JOIN LATERAL "
                               "outbox_internal.route_names(r.created_at) n JOIN outbox.audit a ON a.route = n.name "
                               "AND a.at BETWEEN n.since AND n.until WHERE r.name = $1 AND n.route_id = r.id "
                               "AND a.action = 'retry' AND a.detail ? 'edited' AND a.event_id IS NOT NULL",
                               {route})) {
    if (const std::optional<Uuid> id = ParseUuid(row[0].value()); id) {
      ids_.insert(*id);
    }
  }
}

void TellEdited(int64 events, const char* hint) {
  if (events > 0) {
    Notice("of these edited by retry() before: " + CountText(events, "event"),
           "They are sent as they were emitted, under the same ids: the log has no edits.", hint);
  }
}

}  // namespace outbox::admin
