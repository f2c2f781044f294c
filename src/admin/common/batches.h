// Procedures that commit as they go [P]: a batch, a commit, the next batch.
//
//   Batches batches(fcinfo, "outbox.redrive()");   // refuses inside a transaction block
//   ... RunSql(Access::kWrite, ...) ...; batches.Commit(); ...
//   return batches.Result({Cell("17")});
//
// After the first Commit() nothing that lived in the old transaction may be touched, but the arguments, which the CALL
// keeps. Every batch is READ COMMITTED, whatever the session's default; what a DO block does afterwards is as that
// says. An error ends the transaction.
#pragma once

#include "admin/common/query.h"

namespace outbox::admin {

class Batches {
 public:
  // `may_commit` false: nothing will be committed (a dry run), and it may run anywhere.
  Batches(FunctionCallInfo fcinfo, const char* procedure, bool may_commit);
  TimestampTz started() const { return started_; }
  void Commit();
  // Waits so that no more than `done` events at `per_second` have passed since the start. Interruptible.
  void Throttle(int64 done, double per_second);
  // Call after Commit(): gives the keeper, which tries ten times a second, a chance at what a batch locks.
  // Interruptible.
  void GiveWay();
  // The INOUT arguments, in their types' input form. Call it last.
  Datum Result(const Row& row);

 private:
  static void WaitUntil(int64 until);

  FunctionCallInfo fcinfo_;
  const TimestampTz started_;
  const int64 begun_;  // monotonic microseconds
  bool committed_ = false;
};

}  // namespace outbox::admin
