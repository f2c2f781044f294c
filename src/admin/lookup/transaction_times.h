// When a transaction wrote to the log, by the log itself [P].
#pragma once

#include <unordered_map>
#include <vector>

#include "admin/lookup/log_estimate.h"

namespace outbox::admin {

// Each is looked up once: a look into the index by transaction id of each table.
class TransactionTimes {
 public:
  // `tables` outlives it.
  explicit TransactionTimes(const std::vector<const LogEstimate::Table*>* tables) : tables_(*tables) {}

  // created_at of the first row of that transaction or a later one, Unix microseconds; 0: there is none. Throws
  // PgError.
  int64 Of(uint64 xid);

 private:
  const std::vector<const LogEstimate::Table*>& tables_;
  std::unordered_map<uint64, int64> known_;
};

}  // namespace outbox::admin
