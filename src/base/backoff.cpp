#include "base/backoff.h"

namespace outbox {

int64_t Backoff::Next(uint64_t random) {
  int64_t ceiling = base_;
  for (int i = 0; i < attempts_ && ceiling < cap_; ++i) {
    ceiling = ceiling > cap_ / 2 ? cap_ : ceiling * 2;
  }
  ++attempts_;
  return 1 + static_cast<int64_t>(random % static_cast<uint64_t>(ceiling));
}

}  // namespace outbox
