#include "admin/configure/test_server.h"

#include <algorithm>
#include <optional>

#include "admin/common/operation.h"
#include "admin/common/query.h"
#include "admin/common/text_encoding.h"
#include "admin/lookup/used_mapping.h"
#include "base/monotonic.h"
#include "format/pattern.h"
#include "format/template.h"
#include "pg/entry.h"
#include "pg/library_directory.h"
#include "pg/settings.h"
#include "pg/wait.h"
#include "sink/options.h"

extern "C" {
#include "storage/latch.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"
}

namespace outbox::admin {

namespace {

constexpr int64_t kShortest = 100;
constexpr int64_t kLongest = 60'000;
constexpr int64_t kGrace = 250;        // milliseconds beyond its own timeout that the program may take
constexpr int64_t kAtNewRoute = 1000;  // the timeout there
constexpr int64_t kLongestWait = 200;

// Milliseconds of the statement's time that a look which nobody asked for may take: less than half of what is left of
// statement_timeout, for the rest is needed. Less than kShortest: there is no time for it.
int64_t TimeToSpare(int64_t wanted) {
  return pg::Guard([wanted] {
    if (!get_timeout_active(STATEMENT_TIMEOUT)) {
      return wanted;
    }
    const int64_t left = (get_timeout_finish_time(STATEMENT_TIMEOUT) - GetCurrentTimestamp()) / 1000;
    return std::min(wanted, left / 2 - kGrace);
  });
}

// Lets the program run, in pieces. Its owner ends it, whatever is thrown.
std::vector<sink::CheckupRow> Ask(const std::string& program, const sink::CheckupRequest& request) {
  sink::Checkup checkup(pg::LibraryDirectory() + "/" + program, request);
  const int64_t by = MonotonicMicros() + (request.timeout_ms + kGrace) * 1000;
  while (!checkup.done()) {
    const int64_t left = (by - MonotonicMicros()) / 1000;
    if (left <= 0) {
      break;
    }
    const pgsocket fd = checkup.fd();
    const bool writes = checkup.wants_write();
    pg::Guard([fd, writes, left] {
      const int events =
          WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH | WL_SOCKET_READABLE | (writes ? WL_SOCKET_WRITEABLE : 0);
      WaitLatchOrSocket(MyLatch, events, fd, static_cast<long>(Min(left, kLongestWait)),
                        pg::WaitEventFor("OutboxTestServer"));
      ResetLatch(MyLatch);
      CHECK_FOR_INTERRUPTS();
    });
    checkup.Poll();
  }
  return checkup.TakeRows();
}

// What was found out without asking the destination.
sink::CheckupRow Problem(const char* check, ErrorClass error_class, const char* code, std::string message,
                         std::string hint) {
  return {check, {error_class, code, std::move(message)}, "", std::move(hint)};
}

// The mapping that workers would use, by name and with its options.
std::string MappingText(const UserMappings& mappings) {
  return mappings.used.empty() ? "no user mapping: without user and password"
                               : "with the user mapping of " + mappings.used;
}

Cell Text(const std::string& utf8) {
  return utf8.empty() ? Cell() : Cell(FromUtf8(utf8));
}

// A login that is refused for want of one: the program does not know which mapping there is.
void AddMappingHint(const UserMappings& mappings, const std::string& server, sink::CheckupRow* row) {
  constexpr std::string_view kRefusedLogins[] = {"NOAUTH", "WRONGPASS", "AUTH", "_AUTHENTICATION",
                                                 "SASL_AUTHENTICATION_FAILED"};
  const bool login =
      std::find(std::begin(kRefusedLogins), std::end(kRefusedLogins), row->error.code) != std::end(kRefusedLogins);
  const bool by_ticket =
      row->hint.find("user mapping") == std::string::npos;  // Kerberos: the program's hint has it all
  if (!login || by_ticket || row->error.ok()) {
    return;
  }
  const std::string rule = Utf8(UserMappingRule(mappings));
  if (mappings.used.empty()) {
    row->hint = "There is no user mapping that counts: CREATE USER MAPPING FOR PUBLIC SERVER " +
                Utf8(Identifier(server)) + " OPTIONS (...). " + rule;
  } else {
    row->hint = "The user mapping of " + Utf8(mappings.used) + " is used. " + row->hint + " " + rule;
  }
}

// `options`: of a route, as a JSON object.
sink::RecordForm FormOf(const sink::SinkKind& kind, const std::string& options) {
  if (kind.form == nullptr) {
    return sink::RecordForm::kStream;
  }
  sink::OptionList list;
  for (const Row& row : RunSql(Access::kRead, "SELECT key, value FROM jsonb_each_text($1::jsonb)", {Cell(options)})) {
    list.emplace_back(row[0].value(), row[1].value_or(""));
  }
  return kind.form(list);
}

// What is at that topic by the routes of the server: by the one that is for it, else by any that may give it to events;
// else by what most is asked of among all of them.
sink::RecordForm FormAt(const sink::SinkKind& kind, const std::string& server, const std::string& topic) {
  std::optional<sink::RecordForm> there;
  std::optional<sink::RecordForm> anywhere;
  if (kind.form != nullptr) {
    for (const Row& row : RunSql(Access::kRead,
                                 "SELECT r.topic, a, e, r.options FROM outbox.route r, unnest(r.aggregate_types) a,"
                                 " unnest(r.event_types) e WHERE r.server = $1::name ORDER BY r.topic <> $2, r.id",
                                 {Cell(server), Cell(topic)})) {
      const std::string pattern =
          format::PatternOf(Utf8(row[0].value()), Utf8(row[1].value_or("")), Utf8(row[2].value_or("")));
      const sink::RecordForm form = FormOf(kind, row[3].value());
      there = !there && format::GlobMatches(pattern, Utf8(topic)) ? form : there;
      anywhere = !anywhere || form == sink::RecordForm::kStream ? form : anywhere;
    }
  }
  return there ? *there : anywhere.value_or(sink::RecordForm::kStream);
}

}  // namespace

std::vector<sink::CheckupRow> TestDestination(const Destination& destination, const TestRequest& request) {
  std::vector<sink::CheckupRow> rows;
  const sink::SinkKind& kind = *destination.kind;
  if (const sink::RequiredOption* missing = MissingOption(destination); missing != nullptr) {
    rows.push_back(Problem("options", ErrorClass::kConfig, "BAD_OPTION",
                           "option \"" + std::string(missing->name) + "\" is missing",
                           std::string(missing->why) + " ALTER SERVER ... OPTIONS (ADD \"" + missing->name + "\" '" +
                               missing->example + "')."));
    return rows;
  }
  const UserMappings mappings = FindUserMappings(Access::kRead, request.server);
  sink::CheckupRequest asked;
  sink::OptionProblem problem =
      sink::MergeOptions(kind, destination.options, UsedMapping(kind, destination.oid), &asked.config.options);
  if (!problem.ok()) {
    rows.push_back(Problem("options", ErrorClass::kConfig, "BAD_OPTION", problem.message,
                           problem.detail + (problem.detail.empty() ? "" : " ") + problem.hint));
    return rows;
  }
  rows.push_back({"options", {}, Utf8(MappingText(mappings)), ""});
  asked.topic = Utf8(request.topic);
  const char* bad = asked.topic.empty() ? nullptr : kind.bad_topic(asked.topic);
  if (bad != nullptr) {
    rows.push_back(Problem("topic", ErrorClass::kMessage, "INVALID_TOPIC", "topic name " + std::string(bad),
                           kind.topic_template->names));
    return rows;
  }
  if (kind.program == nullptr) {
    rows.push_back({"connection", {}, "none is needed: events go to " + std::string(kind.title), ""});
    return rows;
  }
  asked.config.name = request.server;
  asked.config.data_directory = DataDir;
  asked.config.max_message_bytes = static_cast<uint64_t>(pg::settings.max_payload_size);
  asked.form = request.form;
  asked.timeout_ms = static_cast<uint32_t>(std::clamp(request.timeout_ms, kShortest, kLongest));
  for (sink::CheckupRow& row : Ask(kind.program, asked)) {
    AddMappingHint(mappings, request.server, &row);
    rows.push_back(std::move(row));
  }
  return rows;
}

void NoticeUnusable(const Destination& destination, const std::string& server, const std::string& topic_template,
                    const std::string& options) {
  if (!pg::settings.test_new_routes || client_min_messages > NOTICE) {
    return;
  }
  const int64_t timeout_ms = TimeToSpare(kAtNewRoute);
  if (timeout_ms < kShortest) {
    return;  // the route is what was asked for
  }
  const TestRequest request{server, topic_template.find('{') == std::string::npos ? topic_template : "",
                            FormOf(*destination.kind, options), timeout_ms};
  const std::vector<sink::CheckupRow> rows = TestDestination(destination, request);
  const auto wrong =
      std::find_if(rows.begin(), rows.end(), [](const sink::CheckupRow& row) { return !row.error.ok(); });
  if (wrong != rows.end()) {
    Notice("server \"" + server + "\" cannot be used as it is: " + FromUtf8(wrong->error.message),
           "Error class " + std::string(ErrorClassName(wrong->error.error_class)) + ", code " +
               FromUtf8(wrong->error.code) + ". The route is made all the same, and its events wait.",
           FromUtf8(wrong->hint + (wrong->hint.empty() ? "" : " ")) + "outbox.test_server(" + Literal(server) +
               (request.topic.empty() ? "" : ", " + Literal(request.topic)) + ") looks again.");
  }
}

}  // namespace outbox::admin

OUTBOX_FUNCTION(outbox_test_server) {
  using namespace outbox::admin;
  const Cell server = TextArgument(fcinfo, 0);
  if (!server) {
    throw outbox::pg::UserError{ERRCODE_NULL_VALUE_NOT_ALLOWED, "server must not be null", "",
                                "Pass the name of a foreign server: outbox.test_server('events')."};
  }
  const Cell topic = TextArgument(fcinfo, 1);
  if (topic && topic->empty()) {
    throw outbox::pg::UserError{ERRCODE_INVALID_PARAMETER_VALUE, "topic must not be empty", "",
                                "Leave it out, or pass NULL, to try no topic."};
  }
  if (PG_ARGISNULL(2)) {
    throw outbox::pg::UserError{ERRCODE_NULL_VALUE_NOT_ALLOWED, "timeout must not be null", "", "For example '10 s'."};
  }
  const Interval* interval = outbox::pg::Guard([&] { return PG_GETARG_INTERVAL_P(2); });
  const int64_t timeout_ms = interval->time / 1000;
  if (interval->month != 0 || interval->day != 0 || timeout_ms < kShortest || timeout_ms > kLongest) {
    throw outbox::pg::UserError{ERRCODE_INVALID_PARAMETER_VALUE, "timeout must be between 100 ms and 60 s", "",
                                "A destination that is well answers within a second."};
  }
  ResultSet result(fcinfo);
  result.Begin();
  const Destination destination = KnownDestination(*server);
  const outbox::sink::RecordForm form = FormAt(*destination.kind, *server, topic.value_or(""));
  for (const outbox::sink::CheckupRow& row :
       TestDestination(destination, {*server, topic.value_or(""), form, timeout_ms})) {
    const bool ok = row.error.ok();
    result.Add({Cell(row.check), Cell(ok ? "t" : "f"), Text(ok ? row.detail : row.error.message), Text(row.hint),
                ok ? Cell() : Cell(outbox::ErrorClassName(row.error.error_class)), Text(row.error.code)});
  }
  return static_cast<Datum>(0);
}
