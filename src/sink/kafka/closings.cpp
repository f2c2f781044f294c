#include "sink/kafka/closings.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "sink/kafka/kafka_sink.h"
#include "sink/kafka/stalled.h"

namespace outbox::sink::kafka {
namespace {

// A smaller one is not taken for why a connection is closed: a broker that crashes again and again looks the same. What
// a broker says hello with, certificates included, is less.
constexpr uint64_t kLargeBytes = 32768;
constexpr uint64_t kRequestBytes = 1'000'000;  // as much of a partition goes at once (batch.size)

// Perhaps it was what the records are together.
void Shrink(Topic* topic, int64_t now) {
  const auto most = std::max_element(
      topic->partitions.begin(), topic->partitions.end(),
      [](const Partition& one, const Partition& other) { return one.inflight_bytes < other.inflight_bytes; });
  if (most != topic->partitions.end() && most->inflight > 1) {
    topic->window.Refused(most->inflight, std::min(most->inflight_bytes, kRequestBytes), /*too_large=*/true, now);
  }
}

}  // namespace

// Whether a record of the topic may go into the library, as far as this search is concerned.
bool KafkaSink::GoesAlone(const Topic& topic) {
  return closed_.alone && topic.care.taken() && std::any_of(topics_.begin(), topics_.end(), [](const auto& each) {
           return each.second->care.taken() && each.second->inflight > 0;
         });
}

void KafkaSink::FindClosings(int64_t now) {
  bool suspected = false;
  producers_.ForEach([&](Producer* each) {
    each->NoteClosings(now);
    const int64_t since = each->closings().since(now);
    const bool careful = each == producers_.careful();
    if (since < 0) {
      return;
    }
    if (careful && closed_.alone) {
      Accuse(each->closings(), since, now);
      return;
    }
    for (auto& [name, topic] : topics_) {
      if (topic->care.taken() == careful && Waits(*topic, since)) {
        topic->care.Suspected(now);
        Shrink(topic.get(), now);
        suspected = true;
      }
    }
  });
  if (suspected) {
    closed_.alone = true;
    producers_.End(now);
  }
}

// The record that was in flight by itself. Not while it may be the destination's trouble: a broker must have answered
// since.
void KafkaSink::Accuse(const Closings& closings, int64_t since, int64_t now) {
  if (!closed_.suspect || closed_.suspect->sent_at > since || closed_.found) {
    return;
  }
  if (health_.answered_at() <= closings.last()) {
    if (health_.AskNow()) {
      producers_.main()->CheckConnection();
    }
    return;  // the answer brings us back
  }
  if (closed_.suspect->bytes < kLargeBytes) {
    closed_.suspect->small = true;  // its topic stalls
    return;
  }
  closed_.found = true;
  producers_.End(now);
}

// The producers have gone, as for FailStalled().
void KafkaSink::FailAccused(std::vector<std::string>* bytes, int64_t now) {
  const std::optional<ClosedSearch::Suspect> suspect = std::exchange(closed_.suspect, std::nullopt);
  if (!std::exchange(closed_.found, false) || !suspect) {
    return;
  }
  suspect->topic->care.Suspected(now);
  producers_.Charged();
  FailFlow({suspect->slot, suspect->index, 0},
           {ErrorClass::kSolo, "CONNECTION_CLOSED",
            "topic \"" + suspect->topic->name + "\": the broker closes the connection at this record of " +
                std::to_string(suspect->bytes) +
                " bytes, each time that it is sent: it may be above the broker's "
                "socket.request.max.bytes, or above what a proxy lets through"});
  StoredBatch& stored = store_.at(suspect->slot);
  if (stored.open == 0) {
    bytes->push_back(std::move(stored.batch.records));
  }
}

}  // namespace outbox::sink::kafka
