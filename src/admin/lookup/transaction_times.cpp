#include "admin/lookup/transaction_times.h"

#include "pg/guard.h"

namespace outbox::admin {

int64 TransactionTimes::Of(uint64 xid) {
  const auto made = known_.try_emplace(xid);
  int64& time = made.first->second;
  if (made.second) {
    pg::Guard([&] {
      for (const LogEstimate::Table* table : tables_) {
        const LogBegin begin = BeginInLog(*table, xid);
        if (begin.found && (time == 0 || begin.created_at < time)) {
          time = begin.created_at;
        }
        if (begin.found && table->day_from_today != PG_INT32_MIN) {
          break;  // those of later days are later
        }
      }
    });
  }
  return time;
}

}  // namespace outbox::admin
