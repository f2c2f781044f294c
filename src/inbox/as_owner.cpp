#include "inbox/as_owner.h"

namespace outbox::inbox {

uint64 Run(pg::Statement* statement, Datum* values, bool newest, const char* nulls) {
  pg::Prepare(statement);
  if (newest) {
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    pg::CheckSpi(SPI_execute_snapshot(statement->plan, values, nulls, snapshot, InvalidSnapshot, false, true, 0));
    UnregisterSnapshot(snapshot);
  } else {
    pg::CheckSpi(SPI_execute_plan(statement->plan, values, nulls, false, 0));
  }
  return SPI_processed;
}

}  // namespace outbox::inbox
