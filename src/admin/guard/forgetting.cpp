#include "admin/guard/forgetting.h"

#include "admin/common/query.h"
#include "admin/guard/loss.h"
#include "base/count_text.h"
#include "pg/settings.h"
#include "pg/subtransaction.h"

namespace outbox::admin {

namespace {

constexpr int64_t kConsumersTold = 10;

// By consumer, and how many consumers there are. An id without a time is in one of two tables or in both.
constexpr const char* kHandled = R"(
SELECT format('%s of consumer "%s"', sum(n), consumer), count(*) OVER () FROM (
  SELECT consumer, sum(rows) FROM outbox_internal.received() r
  WHERE what IN ('key', 'stream') OR day >= coalesce((SELECT k.kept_from FROM outbox_internal.inbox_kept k), '-infinity')
  GROUP BY consumer UNION ALL
  SELECT consumer, max(rows) FROM outbox_internal.received() WHERE what LIKE 'undated%' GROUP BY consumer) c (consumer, n)
GROUP BY consumer ORDER BY consumer LIMIT 10)";

// "": nothing.
std::string Handled() {
  std::string text;
  int64_t more = 0;
  for (const Row& row : RunSql(Access::kRead, kHandled)) {
    text += (text.empty() ? "The inbox has marks, keys and positions: " : ", ") + row[0].value();
    more = std::stoll(row[1].value()) - kConsumersTold;
  }
  text += more > 0 ? ", and of " + CountText(more, "more consumer") : "";
  return text.empty() ? "" : text + ".";
}

}  // namespace

void JudgeForgetting(const std::string& command) {
  const bool here =
      pg::Guard([] { return OtherVersion() == nullptr && OidIsValid(pg::FindOurRelation("inbox_kept")); });
  if (!here) {
    return;
  }
  const std::string text = AtLatestSnapshot([] {
    std::string handled;
    const Status status = pg::TryPart(pg::ConcernsPart, [&handled] { handled = Handled(); });
    return status.ok() ? handled
                       : "How much is not known, because not all can be read: " + status.error().message + " (" +
                             status.error().code + ").";
  });
  if (text.empty()) {
    return;
  }
  if (pg::settings.allow_loss) {
    Warn("what consumers have handled is forgotten", text);
    return;
  }
  throw pg::UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot " + command + " because consumers receive here",
                      text,
                      "What comes again would be handled again, also where the extension is made anew. "
                      "outbox.forget_consumer() takes back what a consumer has that is gone. To lose it all the same: "
                      "SET outbox.allow_loss = on."};
}

}  // namespace outbox::admin
