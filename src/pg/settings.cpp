#include "pg/settings.h"

#include <climits>

#include "base/traceparent.h"
#include "base/uri.h"
#include "pg/library_directory.h"

namespace outbox::pg {

Settings settings;

namespace {

const config_enum_entry kLoneEmits[] = {{"allow", static_cast<int>(LoneEmit::kAllow), false},
                                        {"warn", static_cast<int>(LoneEmit::kWarn), false},
                                        {"refuse", static_cast<int>(LoneEmit::kRefuse), false},
                                        {nullptr, 0, false}};

const config_enum_entry kInboxExpireds[] = {{"error", static_cast<int>(InboxExpired::kError), false},
                                            {"skip", static_cast<int>(InboxExpired::kSkip), false},
                                            {"accept", static_cast<int>(InboxExpired::kAccept), false},
                                            {nullptr, 0, false}};

bool CheckTraceparent(char** value, void**, GucSource) {
  const char* text = *value;
  if (text == nullptr || text[0] == '\0' || IsTraceparent(text)) {
    return true;
  }
  GUC_check_errdetail("A traceparent looks like \"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\".");
  GUC_check_errhint("Where there is no trace, leave it empty.");
  return false;
}

bool CheckSource(char** value, void**, GucSource) {
  const char* text = *value;
  if (text == nullptr || text[0] == '\0' || IsUriReference(text)) {
    return true;
  }
  GUC_check_errdetail(
      "The source of CloudEvents is a URI reference, like \"https://shop.example/orders\" or \"/shop\".");
  return false;
}

// What it lets go is everybody's, so nobody has a value of his own.
bool CheckInboxRetention(int*, void**, GucSource source) {
  if (source != PGC_S_USER && source != PGC_S_DATABASE_USER && source != PGC_S_CLIENT && source != PGC_S_SESSION) {
    return true;
  }
  GUC_check_errmsg(
      "parameter \"outbox.inbox_retention\" is the server's or the database's, not a session's or a role's");
  GUC_check_errdetail("What it lets go is everybody's: the marks of all consumers of the database are dropped by it.");
  GUC_check_errhint(
      "ALTER DATABASE ... SET outbox.inbox_retention, for sessions to come, or set it in postgresql.conf.");
  return false;
}

// By a library: where it is only written in a file, or for a database, it is a placeholder.
bool IsDefined(const char* setting) {
  return GetConfigOption(setting, true, false) != nullptr &&
         (GetConfigOptionFlags(setting, true) & GUC_CUSTOM_PLACEHOLDER) == 0;
}

// A file of another name or place is another library to the server, which loads both: of the second nothing works, and
// PostgreSQL only says that it redefines a setting.
void RefuseSecondCopy() {
  void** loaded = find_rendezvous_variable("outbox library");
  const char* file = LibraryFile();
  if (IsDefined("outbox.enabled")) {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("another copy of the library of outbox is loaded already"),
                    errdetail("Loaded is \"%s\", and this one is \"%s\"; shared_preload_libraries is \"%s\".",
                              *loaded != nullptr ? static_cast<const char*>(*loaded) : "?",
                              file != nullptr ? file : "?", shared_preload_libraries_string),
                    errhint("The functions of the extension are in $libdir/outbox: have shared_preload_libraries name "
                            "it as 'outbox', without a path, and restart the server.")));
  }
  *loaded = const_cast<char*>(file);
}

char* cloudevents_source;  // asked for in SQL, with the routes: log/progress/routes.cpp

}  // namespace

void DefineSettings() {
  RefuseSecondCopy();
  // Settings of the server's start cannot be defined later: where the module is loaded by a session, they have no use
  // but must not end it.
  GucContext at_start = process_shared_preload_libraries_in_progress ? PGC_POSTMASTER : PGC_SIGHUP;
  DefineCustomBoolVariable("outbox.enabled", "Lets the background workers publish events.",
                           "Off: events are still written and kept, and nothing is sent to any destination.",
                           &settings.enabled, true, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
  DefineCustomStringVariable(
      "outbox.instance", "Tells a file-level copy of a server apart from its original.",
      "Set it before the first start of a restored base backup or a disk snapshot; the copy then "
      "stays silent until outbox.adopt() is called.",
      &settings.instance, "", at_start, 0, nullptr, nullptr, nullptr);
  DefineCustomIntVariable("outbox.workers", "Number of relay workers per database.", nullptr, &settings.workers, 2, 0,
                          32, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
  DefineCustomIntVariable("outbox.retention", "How long published events stay available for replay.",
                          "A day table is dropped when its newest event is older than this and every route has "
                          "finished with it. A number without a unit counts minutes; outbox.doctor() warns of less "
                          "than an hour. Whoever looks takes locks by the day: outbox.doctor() some 10 for each, "
                          "outbox.status() 7, outbox.lag 4, emit() none. More than some weeks want a larger "
                          "max_locks_per_transaction.",
                          &settings.retention_minutes, 7 * 24 * 60, 0, INT_MAX / 60, PGC_SIGHUP, GUC_UNIT_MIN, nullptr,
                          nullptr, nullptr);
  DefineCustomIntVariable("outbox.dedupe_retention", "How long a dedupe_key counts at least.",
                          "Keys are dropped by whole days, in UTC, and count until then; also where the event is gone "
                          "from the log. A number without a unit counts minutes.",
                          &settings.dedupe_minutes, 7 * 24 * 60, 24 * 60, INT_MAX / 60, PGC_SIGHUP, GUC_UNIT_MIN,
                          nullptr, nullptr, nullptr);
  DefineCustomIntVariable("outbox.max_log_size",
                          "Size of a database's log on disk beyond which delivered days go before their time.",
                          "Oldest first, until it fits. What is undelivered is kept, and so is a day that has not "
                          "ended. The server log warns at 80 %. 0: there is none.",
                          &settings.max_log_size_mb, 0, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_MB, nullptr, nullptr, nullptr);
  DefineCustomIntVariable(
      "outbox.max_payload_size", "Largest payload that emit() accepts.",
      "Kafka brokers refuse records over 1 MB by default; the default here leaves 16 kB for key and "
      "headers. Formats that make another text of the payload (JSON) take a multiple of it in the relay worker.",
      &settings.max_payload_size, 1024 * 1024 - 16 * 1024, 1024, 256 * 1024 * 1024, PGC_SUSET, GUC_UNIT_BYTE, nullptr,
      nullptr, nullptr);
  DefineCustomIntVariable(
      "outbox.max_inflight", "Unacknowledged bytes that one relay worker keeps in flight to one destination.",
      "It bounds the rate where a destination is far away: to so many bytes in the time that an acknowledgement takes.",
      &settings.max_inflight_kb, 8 * 1024, 1024, 1024 * 1024, PGC_SIGHUP, GUC_UNIT_KB, nullptr, nullptr, nullptr);
  DefineCustomIntVariable("outbox.sort_mem", "Memory for the window that a lane is reading.",
                          "A window that needs more is sorted on disk.", &settings.sort_mem_kb, 32 * 1024, 256,
                          1024 * 1024, PGC_SUSET, GUC_UNIT_KB | GUC_NOT_IN_SAMPLE, nullptr, nullptr, nullptr);
  DefineCustomIntVariable("outbox.poll_interval", "How often an idle relay worker looks without having been woken.",
                          "Commits wake the workers at once; this finds those that cannot, such as COMMIT PREPARED.",
                          &settings.poll_interval_ms, 1000, 10, 60 * 1000, PGC_SIGHUP, GUC_UNIT_MS, nullptr, nullptr,
                          nullptr);
  DefineCustomIntVariable("outbox.days_ahead", "Number of day tables that the keeper makes in advance.", nullptr,
                          &settings.days_ahead, 3, 1, 30, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
  DefineCustomBoolVariable(
      "outbox.allow_loss",
      "Lets commands drop undelivered events, change the log by hand and alter tables and "
      "functions of outbox.",
      "Off: DELETE and UPDATE on outbox_internal.log are refused, and DELETE, TRUNCATE, DROP and DETACH "
      "of what holds undelivered events, or guards them. On: a WARNING and outbox.audit say "
      "what was lost.",
      &settings.allow_loss, false, PGC_SUSET, GUC_NOT_IN_SAMPLE, nullptr, nullptr, nullptr);
  DefineCustomEnumVariable("outbox.lone_emit", "What is done about a transaction that emits and changes nothing else.",
                           "An event that is not in the transaction of the change it tells of can be lost, or tell of "
                           "what never happened. warn: once in a session. Nothing is said or refused where "
                           "track_counts is off.",
                           &settings.lone_emit, static_cast<int>(LoneEmit::kWarn), kLoneEmits, PGC_USERSET, 0, nullptr,
                           nullptr, nullptr);
  DefineCustomBoolVariable("outbox.allow_json_null", "Lets a payload be JSON null.",
                           "Consumers get the four bytes \"null\", which is no tombstone.", &settings.allow_json_null,
                           false, PGC_USERSET, 0, nullptr, nullptr, nullptr);
  DefineCustomBoolVariable("outbox.test_new_routes", "Has create_route() try its server out and say what is wrong.",
                           "It takes a second where nobody answers. The route is made in any case.",
                           &settings.test_new_routes, true, PGC_USERSET, 0, nullptr, nullptr, nullptr);
  DefineCustomStringVariable("outbox.traceparent", "Trace context that emitted events carry as header traceparent.",
                             "W3C Trace Context, for example set with SET LOCAL by the application's tracing library; "
                             "empty for none.",
                             &settings.trace.traceparent, "", PGC_USERSET, 0, CheckTraceparent, nullptr, nullptr);
  DefineCustomStringVariable(
      "outbox.tracestate", "What emitted events carry as header tracestate, with a traceparent.",
      "It goes with outbox.traceparent, and without that is not sent. Of more than 512 bytes, or "
      "what is not printable ASCII, nothing is sent.",
      &settings.trace.tracestate, "", PGC_USERSET, 0, nullptr, nullptr, nullptr);
  DefineCustomStringVariable("outbox.baggage", "What emitted events carry as header baggage.",
                             "W3C Baggage. Of more than 3000 bytes, or more than the other headers leave of 12 kB, or "
                             "what is not printable ASCII, nothing is sent.",
                             &settings.trace.baggage, "", PGC_USERSET, 0, nullptr, nullptr, nullptr);
  DefineCustomBoolVariable("outbox.trace_from_comment",
                           "Takes trace context from a comment of the statement, as SQLCommenter writes it.",
                           "Of the statement that the client sent, at its end or beginning; settings and headers count "
                           "before it. What cannot be read is as none.",
                           &settings.trace.from_comment, false, PGC_USERSET, 0, nullptr, nullptr, nullptr);
  DefineCustomStringVariable("outbox.cloudevents_source", "Attribute source of CloudEvents.",
                             "A URI reference, for routes of the formats cloudevents and cloudevents-json that have no "
                             "option source of their own; empty for /outbox/ and the name of the database.",
                             &cloudevents_source, "", PGC_SIGHUP, 0, CheckSource, nullptr, nullptr);
  DefineCustomIntVariable(
      "outbox.inbox_retention", "How long outbox.receive() remembers which events were handled.",
      "Counted from the time in the event's id; whole days are dropped. Longer than the broker "
      "keeps a record and a consumer may lie still. The same for all of a database: by ALTER DATABASE or "
      "for the server, and not for a session or a role. A number without a unit counts minutes.",
      &settings.inbox.retention_minutes, 14 * 24 * 60, 24 * 60, 28 * 24 * 60, PGC_SUSET, GUC_UNIT_MIN,
      CheckInboxRetention, nullptr, nullptr);
  DefineCustomEnumVariable("outbox.inbox_expired",
                           "What outbox.receive() does about an event that is older than what the inbox remembers.",
                           "error: refuses it, for nobody can say whether it was handled; skip: takes it for handled; "
                           "accept: takes it for new, and remembers it from now on, for a consumer's first load, or "
                           "in one transaction for an event that was delayed for so long.",
                           &settings.inbox.expired, static_cast<int>(InboxExpired::kError), kInboxExpireds, PGC_USERSET,
                           0, nullptr, nullptr, nullptr);
  DefineCustomIntVariable("outbox.reserved_processes",
                          "Number of max_worker_processes that keepers and relay workers leave to others.",
                          "PostgreSQL's own logical replication launcher takes one, parallel queries the others. Two "
                          "processes run in any case, where max_worker_processes is 4 or more; where there is no room "
                          "for all, they run in turn.",
                          &settings.reserved_processes, 3, 0, 262143, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
  DefineCustomIntVariable("outbox.max_databases", "Number of databases of this server that can use the extension.",
                          "One that takes no connections for a while keeps its place.", &settings.max_databases, 64, 1,
                          4096, at_start, 0, nullptr, nullptr, nullptr);
  DefineCustomIntVariable("outbox.max_lanes", "Number of lanes over all databases whose state can be shown.", nullptr,
                          &settings.max_lanes, 1024, 16, 65536, at_start, 0, nullptr, nullptr, nullptr);
  DefineCustomIntVariable("outbox.max_destinations",
                          "Number of destinations over all databases and relay workers whose state can be shown.",
                          nullptr, &settings.max_destinations, 256, 16, 65536, at_start, 0, nullptr, nullptr, nullptr);
  DefineCustomIntVariable("outbox.max_series",
                          "Number of routes over all databases that have figures of their own in outbox.metrics().",
                          "Further ones are counted together as \"other\"; each takes 7 kB of shared memory.",
                          &settings.max_series, 256, 1, 65536, at_start, 0, nullptr, nullptr, nullptr);
  MarkGUCPrefixReserved("outbox");
}

}  // namespace outbox::pg
