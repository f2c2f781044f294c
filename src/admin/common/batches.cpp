#include "admin/common/batches.h"

#include "base/monotonic.h"
#include "pg/wait.h"

extern "C" {
#include "access/xact.h"
#include "nodes/parsenodes.h"
}

namespace outbox::admin {

namespace {

constexpr int64 kGiveWayMicros = 250 * 1000;

bool MayCommit(FunctionCallInfo fcinfo) {
  return fcinfo->context != nullptr && IsA(fcinfo->context, CallContext) &&
         !reinterpret_cast<CallContext*>(fcinfo->context)->atomic && !IsSubTransaction();
}

}  // namespace

Batches::Batches(FunctionCallInfo fcinfo, const char* procedure, bool may_commit)
    : fcinfo_(fcinfo), started_(GetCurrentTimestamp()), begun_(MonotonicMicros()) {
  if (may_commit && !MayCommit(fcinfo)) {
    throw pg::UserError{ERRCODE_ACTIVE_SQL_TRANSACTION,
                        std::string(procedure) + " cannot run inside a transaction block",
                        "It commits after each batch.",
                        "CALL it as a statement of its own: without BEGIN, with autocommit on, not from a function."};
  }
  pg::Guard([&] {
    if (SPI_connect_ext(may_commit ? SPI_OPT_NONATOMIC : 0) != SPI_OK_CONNECT) {
      ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not connect to SPI")));
    }
  });
  if (may_commit && XactIsoLevel != XACT_READ_COMMITTED) {
    Commit();
  }
}

void Batches::Commit() {
  committed_ = true;
  pg::Guard([] {
    SPI_commit();
    // READ COMMITTED whatever the session's default is: each batch sees what workers and other operators have done
    // before it.
    XactIsoLevel = XACT_READ_COMMITTED;
    CHECK_FOR_INTERRUPTS();
  });
}

void Batches::Throttle(int64 done, double per_second) {
  WaitUntil(begun_ + static_cast<int64>(static_cast<double>(done) / per_second * USECS_PER_SEC));
}

void Batches::GiveWay() {
  WaitUntil(MonotonicMicros() + kGiveWayMicros);
}

void Batches::WaitUntil(int64 until) {
  const auto milliseconds = static_cast<long>((until - MonotonicMicros() + 999) / 1000);
  pg::Guard([milliseconds] { pg::WaitWhole(milliseconds, pg::WaitEventFor("OutboxThrottle")); });
}

Datum Batches::Result(const Row& row) {
  std::vector<char*> texts(row.size());
  for (size_t i = 0; i < row.size(); i++) {
    texts[i] = row[i] ? const_cast<char*>(row[i]->c_str()) : nullptr;
  }
  char** values = texts.data();
  return pg::Guard([&] {
    if (committed_ && XactIsoLevel != DefaultXactIsoLevel) {
      SPI_commit();  // the transaction that the caller goes on in is the session's own again
    }
    SPI_finish();
    TupleDesc columns = nullptr;
    if (get_call_result_type(fcinfo_, nullptr, &columns) != TYPEFUNC_COMPOSITE) {
      ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("procedure has no result")));
    }
    return HeapTupleGetDatum(BuildTupleFromCStrings(TupleDescGetAttInMetadata(BlessTupleDesc(columns)), values));
  });
}

}  // namespace outbox::admin
