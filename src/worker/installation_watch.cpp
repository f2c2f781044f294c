#include "worker/installation_watch.h"

#include <algorithm>

#include "pg/transaction.h"

namespace outbox::worker {

namespace {

// Microseconds.
constexpr int64_t kEvery = 5'000'000;
constexpr int64_t kInDoubt = 250'000;

}  // namespace

void InstallationWatch::Doubt() {
  next_look_ = std::min(next_look_, looked_at_ + kInDoubt);
}

bool InstallationWatch::Look() {
  const int64_t now = clock_->NowMicros();
  if (now < next_look_) {
    return false;
  }
  pg::Installation installation;
  // Not as the owner known so far: that role may not own the extension any more, or may be gone.
  pg::SetTransactionRole(InvalidOid);
  try {
    pg::InTransaction(CurrentMemoryContext, [&] { installation = pg::FindInstallation(); });
  } catch (...) {
    pg::SetTransactionRole(owner_);
    throw;
  }
  looked_at_ = now;
  next_look_ = now + kEvery;
  presence_ = installation.presence;
  if (presence_ == pg::Presence::kAbsent) {  // nothing runs with more rights for that
    pg::SetTransactionRole(owner_);
    return false;
  }
  const bool another = owner_ != installation.owner;
  owner_ = installation.owner;
  pg::SetTransactionRole(installation.owner);
  return another;
}

}  // namespace outbox::worker
