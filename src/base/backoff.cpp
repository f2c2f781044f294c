#include "base/backoff.h"

namespace outbox {

int64_t Backoff::Next(uint64_t random) {
  return Delay(base_, cap_, ++attempts_, random);
}

int64_t Backoff::Delay(int64_t base, int64_t cap, int failures, uint64_t random) {
  int64_t ceiling = base;
  for (int i = 1; i < failures && ceiling < cap; ++i) {
    ceiling = ceiling > cap / 2 ? cap : ceiling * 2;
  }
  return 1 + static_cast<int64_t>(random % static_cast<uint64_t>(ceiling));
}

}  // namespace outbox
