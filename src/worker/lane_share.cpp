#include "worker/lane_share.h"

#include "pg/settings.h"
#include "pg/worker_slot.h"

namespace outbox::worker {

namespace {

// Microseconds.
constexpr int64_t kEvery = 1'000'000;
constexpr int64_t kSoonest = 50'000;    // after the last time: many lanes may be given back one after the other
constexpr int64_t kSteady = 1'000'000;  // so long a worker lasts before others give it its part
constexpr int64_t kAllStart = 200'000;  // workers that start together do not take each other's part

}  // namespace

bool LaneShare::Due() {
  const int64_t now = clock_->NowMicros();
  alone_from_ = alone_from_ == 0 ? now + kAllStart : alone_from_;
  if (pg_atomic_exchange_u32(&self_.worker_slot->lanes_freed, 0) != 0) {
    DueAt(last_ + kSoonest);
  }
  if (now < next_) {
    return false;
  }
  last_ = now;
  next_ = now + kEvery;
  return true;
}

int LaneShare::Of(int all) {
  all_ = all;
  const int64_t now = clock_->NowMicros();
  const int expected = std::min({pg::settings.workers, self_.database_slot->relays_allowed, all});
  const pg::Sharers sharers = pg::CountSharers(self_.database, now - kSteady);
  if (sharers.oldest_other != 0) {
    DueAt(sharers.oldest_other + kSteady);
  }
  if (sharers.steady >= expected) {
    short_handed_ = false;
  } else if (sharers.all < expected) {
    short_handed_ = short_handed_ || now >= alone_from_;
    if (now < alone_from_) {
      DueAt(alone_from_);
    }
  }
  const int parts = std::max(short_handed_ ? sharers.steady : std::max(sharers.all, expected), 1);
  return (all + parts - 1) / parts;
}

}  // namespace outbox::worker
