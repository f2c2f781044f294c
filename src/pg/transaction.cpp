#include "pg/transaction.h"

#include <utility>

#include "base/monotonic.h"
#include "pg/owner.h"

extern "C" {
#include "catalog/namespace.h"
}

namespace outbox::pg {

namespace {

Oid transaction_role = InvalidOid;
Oid connected_role = InvalidOid;
int connected_context = 0;

// A worker does many things in turn, so all of them wait while it waits for a lock. A single wait is short, and after
// one was in vain (the next attempts may well meet the same lock) the others hardly wait at all.
constexpr const char* kPatience = "20ms";
constexpr const char* kLittlePatience = "1ms";
constexpr int64_t kPatienceComesBack = 1'000'000;  // microseconds after the last wait in vain
const char* patience = nullptr;                    // as set now; nullptr: not set by outbox
int64_t refused_at = INT64_MIN / 2;
bool missing = false;

volatile sig_atomic_t cancels = true;            // PostgreSQL may be asked to cancel what runs
volatile sig_atomic_t cancel_asked_for = false;  // while it might not

void LetCancels() {
  cancels = true;
  if (cancel_asked_for) {
    cancel_asked_for = false;
    CancelTransaction();
  }
}

void SetPatience(const char* wanted) {
  if (patience != wanted) {
    SetConfigOption("lock_timeout", wanted, PGC_SUSET, PGC_S_OVERRIDE);
    patience = wanted;
  }
}

}  // namespace

void CancelTransaction() {
  if (cancels) {
    InterruptPending = true;
    QueryCancelPending = true;
  } else {
    cancel_asked_for = true;
  }
}

void HoldCancels() {
  cancels = false;
  if (QueryCancelPending) {
    QueryCancelPending = false;
    cancel_asked_for = true;
  }
}

void ForgetCancel() {
  cancel_asked_for = false;
  QueryCancelPending = false;
}

void LimitLockWaits() {
  SetPatience(kPatience);
}

void CommitWithoutFlush() {
  (void)set_config_option("synchronous_commit", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
}

void NoteFailure(int sqlstate) {
  if (sqlstate == ERRCODE_LOCK_NOT_AVAILABLE) {
    refused_at = MonotonicMicros();
  }
  const int category = ERRCODE_TO_CATEGORY(sqlstate);
  missing = missing || category == ERRCODE_SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION ||
            category == ERRCODE_TO_CATEGORY(ERRCODE_INVALID_SCHEMA_NAME) ||
            sqlstate == ERRCODE_INTERNAL_ERROR;  // what was looked for by its number
}

bool TakeMissing() {
  return std::exchange(missing, false);
}

bool InOwnStatement() {
  Oid user = InvalidOid;
  int security_context = 0;
  GetUserIdAndSecContext(&user, &security_context);
  return (security_context & kOwnStatement) != 0;
}

void SetTransactionRole(Oid role) {
  transaction_role = role;
}

void PinSessionSettings() {
  static const char* const pinned[][2] = {
    {"role", "none"},  // ALTER DATABASE ... SET role: its owner may
    {"default_transaction_isolation", "read committed"},
    {"default_transaction_read_only", "off"},
    {"default_transaction_deferrable", "off"},
    // Local durability only: a worker must not hang in a sync-rep wait, where it would absorb no barrier. What it
    // publishes is checked against the standbys by LaneLog::CheckDurable.
    {"synchronous_commit", "local"},
    {"statement_timeout", "0"},
    {"lock_timeout", "0"},
    {"idle_in_transaction_session_timeout", "0"},
#if PG_VERSION_NUM >= 170000
    {"transaction_timeout", "0"},
    {"event_triggers", "off"},
#endif
    {"row_security", "off"},
    {"exit_on_error", "off"},  // or a process would end where a lock is not to be had
    // A limit set for everybody would let parked events stand still; what workers sort is bounded by what they ask for.
    {"work_mem", "4MB"},
    {"max_parallel_maintenance_workers", "0"},  // indexes are small, and shared memory may be full
    {"temp_file_limit", "-1"},
    {"session_replication_role", "origin"},
    {"client_min_messages", "error"},
  };
  for (const auto& setting : pinned) {
    SetConfigOption(setting[0], setting[1], PGC_SUSET, PGC_S_OVERRIDE);
  }
  // Plans are kept for the life of the process, from when a table may be small to when it is large.
  for (const PinnedSetting& setting : StatementSettings(Plan::kByKey)) {
    SetConfigOption(setting.name, setting.value, PGC_SUSET, PGC_S_OVERRIDE);
  }
}

void RequirePinnedSearchPath() {
  // The second is what SET in a function's definition has become where quote_all_identifiers was on.
  if (strcmp(namespace_search_path, kSearchPath) != 0 &&
      strcmp(namespace_search_path, "\"pg_catalog\", \"pg_temp\"") != 0) {
    ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("a statement of outbox needs a pinned search_path"),
                    errdetail("It is \"%s\".", namespace_search_path)));
  }
}

void BeginTransaction() {
  if (patience != nullptr) {
    SetPatience(MonotonicMicros() - refused_at < kPatienceComesBack ? kLittlePatience : kPatience);
  }
  SetCurrentStatementStartTimestamp();
  LetCancels();
  StartTransactionCommand();
  GetUserIdAndSecContext(&connected_role, &connected_context);
  if (transaction_role != InvalidOid) {
    SetUserIdAndSecContext(transaction_role, connected_context | SECURITY_RESTRICTED_OPERATION | kOwnStatement);
  }
  if (SPI_connect() != SPI_OK_CONNECT) {
    ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not connect to SPI")));
  }
  PushActiveSnapshot(GetTransactionSnapshot());
}

void CommitTransaction() {
  SPI_finish();
  PopActiveSnapshot();
  CommitTransactionCommand();  // still as that role: deferred triggers run now
  HoldCancels();
  SetUserIdAndSecContext(connected_role, connected_context);  // an abort does this by itself
  pgstat_report_stat(false);
}

void AbortTransaction() {
  HoldCancels();
  AbortCurrentTransaction();
}

}  // namespace outbox::pg
