#include "emit/topic_rights.h"

#include "format/pattern.h"
#include "pg/entry.h"
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
           "The owner of the extension may say outbox.grant_emit(%s, topics => ...) with further patterns, or "
           "without topics for all. What it said last outlives DROP OWNED and REVOKE: outbox.revoke_emit() takes it "
           "back.",
           pg::RoleArgument(name))));
  pg_unreachable();
}

// What outbox_internal.emit_routines() has.
constexpr const char* kRoutines[] = {"emit",      "emit_text",      "emit_bytes", "emit_tombstone",
                                     "emit_many", "emit_many_json", "emit_row",   "emit_outboxevent"};

bool MayEmit(Oid role) {
  bool may = pg::MayInsert(role, "event") || pg::MayInsert(role, "outboxevent");
  for (const char* routine : kRoutines) {
    may = may || pg::MayCall(role, routine);
  }
  return may;
}

[[noreturn]] void RefuseUnsaid(Oid role) {
  const char* name = GetUserNameFromId(role, false);
  ereport(
      ERROR,
      (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("role \"%s\" may not emit", name),
       errdetail("It was granted no right to. What an emit_row trigger emits is its table owner's, and what comes by "
                 "another view or a rule that of who inserts there: no other role's topics are theirs."),
       errhint("The owner of the extension may say outbox.grant_emit(%s, topics => ...), or without topics for "
               "all.",
               pg::RoleArgument(name))));
  pg_unreachable();
}

// As EmitsNothing(), of what is known of the role.
bool EmitsNothing(const pg::Right* right, Oid role) {
  return !right->limited && !right->said && rights.limits() && !MayEmit(role);
}

}  // namespace

// Without a right there are ways to here all the same: the views of others, their rules, and tables that one is given.
// Where any role's topics are limited, these would be ways around the limit.
bool EmitsNothing(Oid role) {
  return EmitsNothing(rights.Of(role), role);
}

bool EmitsTo(Oid role, const char* topic) {
  const pg::Right* right = rights.Of(role);
  return !EmitsNothing(right, role) && rights.Allows(right, topic);
}

void CheckTopicRight(const NewEvent* event) {
  const Oid role = OidIsValid(event->emitter) ? event->emitter : GetUserId();
  const pg::Right* right = rights.Of(role);
  if (EmitsNothing(right, role)) {
    RefuseUnsaid(role);
  }
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

// outbox_internal.emits_nothing(role oid).
OUTBOX_FUNCTION(outbox_emits_nothing) {
  return BoolGetDatum(outbox::emit::EmitsNothing(PG_GETARG_OID(0)));
}

// outbox_internal.emits_to(role oid, topic text).
OUTBOX_FUNCTION(outbox_emits_to) {
  return BoolGetDatum(outbox::emit::EmitsTo(PG_GETARG_OID(0), text_to_cstring(PG_GETARG_TEXT_PP(1))));
}
