// Events whose content retry() has changed [P]. The log has them as they were emitted: who sends them from there again
// sends what was wrong.
#pragma once

#include <set>
#include <string>

#include "admin/common/query.h"
#include "base/uuid.h"

namespace outbox::admin {

class EditedEvents {
 public:
  // Those that were edited on the route, as the audit knows.
  explicit EditedEvents(const std::string& route);
  bool Has(const Uuid& id) const { return ids_.contains(id); }

 private:
  std::set<Uuid> ids_;
};

// A NOTICE that of what is sent again so many were edited, with what to do; nothing for none.
void TellEdited(int64 events, const char* hint);

}  // namespace outbox::admin
