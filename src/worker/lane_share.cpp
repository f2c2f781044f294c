#include "worker/lane_share.h"

#include "pg/settings.h"
#include "pg/worker_slot.h"

namespace outbox::worker {

namespace {

// Microseconds.
constexpr int64_t kEvery = 1'000'000;
constexpr int64_t kSettle = 3'000'000;  // a worker that died is given this long to come back

}  // namespace

bool LaneShare::Due() {
  const int64_t now = clock_->NowMicros();
  const int running = pg::CountRunningRelays(place_.database);
  if (now < next_ && running == workers_) {
    return false;
  }
  next_ = now + kEvery;
  if (running != workers_) {
    workers_ = running;
    workers_since_ = now;
  }
  return true;
}

int LaneShare::Of(int all) {
  all_ = all;
  const int expected = std::min({pg::settings.workers, place_.database_slot->relays_allowed, all});
  const bool settled = clock_->NowMicros() - workers_since_ >= kSettle;
  const int sharers = std::max(settled ? workers_ : std::max(workers_, expected), 1);
  return (all + sharers - 1) / sharers;
}

}  // namespace outbox::worker
