#include "worker/cluster_watch.h"

#include <cstring>

#include "base/monotonic.h"
#include "log/loss/met_cluster.h"
#include "pg/worker_slot.h"

namespace outbox::worker {

namespace {

// Microseconds.
constexpr int64_t kTell = 3600 * kSecond;
constexpr int64_t kNoteAgain = 1 * kSecond;
constexpr int64_t kLookEvery = 250'000;
constexpr int64_t kLasts = 10 * kSecond;  // longer than workers take to meet the same

// The one at which another worker of that database is; "": none is at another than `cluster`.
std::string ClusterBeside(const pg::DestinationSlot& slot, const char* cluster) {
  char found[sizeof(slot.view.cluster)] = "";
  LWLockAcquire(pg::Shared()->lock, LW_SHARED);
  for (int i = 0; i < pg::Shared()->max_destinations; i++) {
    const pg::DestinationSlot& other = pg::Destinations()[i];
    if (&other != &slot && other.database == slot.database && other.server == slot.server &&
        other.view.cluster[0] != '\0' && strcmp(other.view.cluster, cluster) != 0 && pg::IsAlive(other.owner)) {
      strlcpy(found, other.view.cluster, sizeof(found));
      break;
    }
  }
  LWLockRelease(pg::Shared()->lock);
  return found;
}

}  // namespace

// Whether it is another one than before.
bool ClusterWatch::Note(relay::DestinationId id, const std::string* cluster, std::string* noted, int64_t now,
                        Seen* seen) {
  if (cluster == nullptr) {
    noted->clear();  // before it meets one again, another worker may have met another
    return false;
  }
  if (*cluster == *noted || now < seen->next_note) {
    return false;
  }
  std::string former;
  if (!log::NoteCluster(id, *cluster, &former).ok()) {
    seen->next_note = now + kNoteAgain;  // a table is locked: the lanes' own trouble tells where that lasts
    return false;
  }
  *noted = *cluster;
  if (former.empty()) {
    return false;
  }
  seen->another = {ErrorClass::kConfig, "ANOTHER_CLUSTER",
                   "at its addresses there is another cluster: \"" + *cluster + "\", and before it was \"" + former +
                       "\"; what was delivered until then is in that one"};
  seen->another_until = now + kTell;
  return true;
}

ClusterWatch::News ClusterWatch::See(const pg::DestinationSlot* slot, int64_t now, relay::DestinationStatus* status) {
  if (status->met_cluster == nullptr && status->retry_cluster == nullptr && !seen_.contains(status->id)) {
    return {};
  }
  Seen& seen = seen_[status->id];
  News news;
  const bool another = Note(status->id, status->met_cluster, &seen.noted, now, &seen);
  const bool retry_another = Note(status->id, status->retry_cluster, &seen.retry_noted, now, &seen);
  news.another = another || retry_another ? &seen.another : nullptr;
  if (status->met_cluster != nullptr && status->state == BreakerState::kClosed) {
    SetText(status->cluster, *status->met_cluster);
  }
  const char* mine = status->cluster;
  if (seen.looked_at == 0 || now - seen.looked_at >= kLookEvery) {
    seen.looked_at = now;
    seen.beside = mine[0] == '\0' ? std::string()
                  : status->retry_cluster != nullptr && *status->retry_cluster != *status->met_cluster
                      ? *status->retry_cluster
                  : slot != nullptr ? ClusterBeside(*slot, mine)
                                    : std::string();
    seen.two_since = seen.beside.empty() ? 0 : seen.two_since == 0 ? now : seen.two_since;
  }
  if (seen.two_since != 0 && now - seen.two_since >= kLasts) {
    seen.two = {ErrorClass::kConfig, "TWO_CLUSTERS",
                std::string("its relay workers are at two clusters, \"") + mine + "\" and \"" + seen.beside +
                    "\": each delivers to its own"};
    news.two = &seen.two;
  }
  const Error* shown = news.two != nullptr                              ? news.two
                       : !seen.another.ok() && now < seen.another_until ? &seen.another
                                                                        : nullptr;
  if (shown != nullptr && status->reason.ok()) {
    status->only_warning = true;
    status->trouble.Set(shown);
  }
  return news;
}

}  // namespace outbox::worker
