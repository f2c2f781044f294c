#include "admin/lookup/transaction_times.h"

#include "pg/guard.h"

namespace outbox::admin {

int64 TransactionTimes::Of(uint64 xid) {
  const auto made = known_.try_emplace(xid);
  int64& time = made.first->second;
  if (made.second) {
    pg::Guard([&] {
      for (const LogEstimate::Table* table : tables_) {
        const LogPlace place = PlaceInLog(*table, xid);
        if (place.found && (time == 0 || place.created_at < time)) {
          time = place.created_at;
        }
        if (place.found && table->day_from_today != PG_INT32_MIN) {
          break;  // those of later days are later
        }
      }
    });
  }
  return time;
}

}  // namespace outbox::admin
