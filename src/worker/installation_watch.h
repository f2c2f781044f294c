// Whether the extension is here, and belongs to this server [P]; a relay worker looks at it every now and then. Throws
// pg::PgError.
#pragma once

#include <cstdint>

#include "pg/identity.h"
#include "relay/common/engine_clock.h"

namespace outbox::worker {

class InstallationWatch {
 public:
  // `clock` outlives it.
  explicit InstallationWatch(relay::Clock* clock) : clock_(clock) {}

  void LookNow() { next_look_ = 0; }
  // A lane has trouble with its tables: they may have gone.
  void Doubt();

  // Looks, when it is time to. From then on transactions run as the owner that it has found. Returns true if that is
  // another one than before.
  bool Look();

  // The role that owns the extension; 0: not known yet.
  uint32_t owner() const { return owner_; }
  // Not here, or not to publish here any more.
  bool gone() const { return presence_ != pg::Presence::kHere; }

 private:
  relay::Clock* const clock_;
  pg::Presence presence_ = pg::Presence::kHere;
  uint32_t owner_ = 0;
  int64_t looked_at_ = 0;  // monotonic microseconds
  int64_t next_look_ = 0;
};

}  // namespace outbox::worker
