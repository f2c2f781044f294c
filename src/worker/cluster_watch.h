// Which cluster a destination is [P]: what a relay worker finds out, and has to tell of it.
//
// Another one than any worker has met last there (log/loss/met_cluster.h) is told by the one that meets it first, and
// shown for an hour; by doctor() as long, whatever becomes of the worker. Two at once (addresses of two clusters, of
// which each sink has the one that answered it) are shown while it lasts. While a cluster is replaced, workers notice
// one after the other: that is not meant.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"
#include "pg/shared.h"
#include "relay/common/engine_types.h"

namespace outbox::worker {

class ClusterWatch {
 public:
  // What is to be said in the log, until the next call.
  struct News {
    const Error* another = nullptr;  // once
    const Error* two = nullptr;      // while it lasts
  };

  // Looks at a destination, and puts what is to be shown, and which cluster it is, into *status. `slot`: where others
  // see it; nullptr: nowhere. `now` is monotonic.
  News See(const pg::DestinationSlot* slot, int64_t now, relay::DestinationStatus* status);
  // It is not used here any more.
  void Forget(relay::DestinationId id) { seen_.erase(id); }

 private:
  struct Seen {
    std::string noted;        // as it was last looked up, or written down; "": it has to be
    std::string retry_noted;  // the same of the sink of what is tried again
    int64_t next_note = 0;    // could not be written down: not again before
    Error another;
    int64_t another_until = 0;
    Error two;
    std::string beside;     // the other one, as of looked_at
    int64_t looked_at = 0;  // 0: never
    int64_t two_since = 0;  // 0: there is one
  };

  static bool Note(relay::DestinationId id, const std::string* cluster, std::string* noted, int64_t now, Seen* seen);

  std::map<relay::DestinationId, Seen> seen_;
};

}  // namespace outbox::worker
