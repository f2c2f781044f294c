#include "emit/topic_rights.h"

#include "format/pattern.h"
#include "pg/rights.h"

namespace outbox::emit {

namespace {

pg::PatternRights rights("emit_right", format::GlobMatches);

[[noreturn]] void Refuse(const pg::Right* right, const char* topic) {
  const char* name = GetUserNameFromId(right->role, false);
  ereport(
      ERROR,
      (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("role \"%s\" may not emit to topic \"%s\"", name, topic),
       errdetail("It may emit to %s. An event without a topic of its own counts as outbox.event.<aggregate type>.",
                 pg::PatternRights::Listed(right)),
       errhint(
           "The owner of the extension may say outbox.grant_emit('%s', topics => ...) with further patterns, or "
           "without topics for all. What it said last outlives DROP OWNED and REVOKE: outbox.revoke_emit() takes it "
           "back.",
           name)));
  pg_unreachable();
}

}  // namespace

void CheckTopicRight(const NewEvent* event) {
  const pg::Right* right = rights.Of(OidIsValid(event->emitter) ? event->emitter : GetUserId());
  if (!right->limited) {
    return;
  }
  const char* topic = event->topic != nullptr ? text_to_cstring(event->topic)
                                              : psprintf("%s%s", kDefaultTopic, text_to_cstring(event->aggregate_type));
  if (!rights.Allows(right, topic)) {
    Refuse(right, topic);
  }
}

}  // namespace outbox::emit
