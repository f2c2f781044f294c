#include "admin/common/operation.h"

#include <algorithm>

#include "base/like_pattern.h"
#include "pg/rights.h"
#include "pg/worker_slot.h"
#include "pg/writable.h"

extern "C" {
#include "utils/fmgroids.h"
}

namespace outbox::admin {

void RequireWritable(const char* function) {
  pg::Guard([&] { pg::RequireWritable(function); });
}

Cell CheckReason(const Cell& reason, bool required) {
  bool blank = !reason || std::all_of(reason->begin(), reason->end(), [](unsigned char c) { return c <= ' '; });
  if (!blank) {
    return reason;
  }
  if (required) {
    throw pg::UserError{reason ? ERRCODE_INVALID_PARAMETER_VALUE : ERRCODE_NULL_VALUE_NOT_ALLOWED, "a reason is needed",
                        "It is kept in outbox.audit, for those who come after.",
                        "Say why, such as reason => 'ticket 4711: customer deleted'."};
  }
  return Cell();
}

void WriteAudit(const char* action, const Cell& route, const Cell& event_id, JsonObject detail, const Cell& reason) {
  const char* who = pg::Guard([]() -> const char* { return GetUserNameFromId(GetSessionUserId(), false); });
  const char* role = pg::Guard([]() -> const char* { return pg::OtherRole(); });
  if (role != nullptr) {
    detail.Add("role", Cell(role));
  }
  RunSql(Access::kWrite,
         "INSERT INTO outbox.audit (who, action, route, event_id, detail, reason) "
         "VALUES ($1::name, $2, $3, $4::uuid, $5::jsonb, $6)",
         {Cell(who), Cell(action), route, event_id, Cell(detail.Text()), reason});
}

pg::UserError NoSuchRoute(const std::string& name) {
  return pg::UserError{ERRCODE_UNDEFINED_OBJECT, "route \"" + name + "\" does not exist", "",
                       "SELECT name FROM outbox.route shows all routes."};
}

std::string RouteId(const std::string& name) {
  std::vector<Row> rows = RunSql(Access::kWrite, "SELECT id FROM outbox.route WHERE name = $1", {Cell(name)});
  if (rows.empty()) {
    throw NoSuchRoute(name);
  }
  return rows[0][0].value();
}

std::string KeepRoute(const std::string& name) {
  for (;;) {
    const std::vector<Row> rows =
        RunSql(Access::kWrite, "SELECT id FROM outbox.route WHERE name = $1 FOR KEY SHARE", {Cell(name)});
    if (!rows.empty()) {
      return rows[0][0].value();
    }
    (void)RouteId(name);  // there is one: it was made together with the end of the one that was waited for
  }
}

Cell LikePattern(const Cell& pattern) {
  return pattern ? Cell(LikeText(*pattern, '%')) : Cell();
}

std::string StarInKeyHint(const Cell& aggregate_id) {
  return aggregate_id && aggregate_id->find('*') != std::string::npos
             ? "aggregate_id is compared as it is: a * in it stands for itself."
             : "";
}

std::string LiveIncarnations() {
  return pg::Guard([]() -> const char* { return OidOutputFunctionCall(F_ARRAY_OUT, pg::LiveIncarnations()); });
}

void Notice(const std::string& message, const std::string& detail, const std::string& hint) {
  const char* text = message.c_str();
  const char* more = detail.empty() ? nullptr : detail.c_str();
  const char* advice = hint.empty() ? nullptr : hint.c_str();
  pg::Guard([&] {
    ereport(NOTICE, (errmsg("%s", text), more != nullptr ? errdetail("%s", more) : 0,
                     advice != nullptr ? errhint("%s", advice) : 0));
  });
}

}  // namespace outbox::admin
