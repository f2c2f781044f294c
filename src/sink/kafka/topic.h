// What the sink knows of a topic and its partitions while a producer lives, and which records wait for what [-].
//
// Two rules keep order when a broker refuses something (design: the idempotent producer alone does not):
// - cold: per producer and partition, one record goes alone until its acknowledgement; the broker then knows this
//   producer there and takes no successor of a refused batch. The others of that partition wait in the sink.
// - asking: the first record of a topic goes alone and without a partition; the library finds out whether the topic
//   exists (or has the broker make it), and with the acknowledgement the number of partitions is known.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sink/kafka/batch_window.h"
#include "sink/kafka/care.h"
#include "sink/kafka/limits.h"
#include "sink/kafka/topic_trouble.h"

namespace outbox::sink::kafka {

struct TopicLink;

// A record that waits in the sink: its batch's slot, its number there, where its bytes start.
struct RecordRef {
  uint32_t slot;
  uint32_t index;
  uint32_t offset;
};

// How much a record counts in a partition's window: about what it takes in a batch.
inline uint64_t RecordBytes(size_t key, size_t body) {
  return key + body + 128;
}

struct Partition {
  bool warm = false;            // a record was acknowledged here by this producer, not long ago
  uint32_t inflight = 0;        // records in the library
  uint64_t inflight_bytes = 0;  // see RecordBytes
  int64_t moved_at = 0;         // last acknowledgement, or when a record went in with none in flight
  int64_t last_offset = -1;
  std::deque<RecordRef> waiting;
};

enum class TopicState : uint8_t {
  kUnknown,   // nothing sent by this producer
  kAsking,    // the first record is on its way, all others wait in Topic::waiting
  kReady,     // partitions are known
  kDraining,  // their number has changed: new records wait until the old ones are resolved
};

struct Topic {
  Topic(std::string_view a_name, int64_t raise_micros) : name(a_name), window(raise_micros) {}

  const std::string name;

  // --- of one producer: Reset() starts over
  TopicState state = TopicState::kUnknown;
  TopicLink* link = nullptr;  // the producer's
  std::vector<Partition> partitions;
  std::deque<RecordRef> waiting;
  uint32_t inflight = 0;         // records in the library, all partitions
  uint32_t waiting_records = 0;  // records waiting in the sink, all partitions
  int32_t sticky = -1;           // partition for records without a key
  uint64_t sticky_batch = 0;
  int64_t counted_at = 0;  // when the number of partitions was last looked at
  int64_t asked_at = 0;    // kAsking: since when
  RecordRef asking = {};   // kAsking: the record that is on its way
  bool recount = false;    // kDraining: then the library is asked again, as about a new topic

  // --- of the topic, whichever producer
  TopicTrouble trouble;
  BatchWindow window;
  TopicLimits limits;
  Care care;
  // By partition: where the newest record is that was acknowledged; -1: not known.
  std::vector<int64_t> ends;
  int64_t fewer_at = -1;  // when the cluster is to be asked whether it has fewer partitions than these; -1: never
  // Refusals in a row with a code of note kCapped, by partition (the first: no partition).
  std::vector<uint32_t> puzzles;

  // Whether a record of this size may go into the library now.
  bool Admits(const Partition& partition, uint64_t bytes) const;
  void Acknowledged(int32_t partition, uint32_t count, uint64_t bytes, int64_t now);
  // Records were acknowledged at these offsets, `first` to `last`. Returns where the newest one was before, if these
  // are not behind it: a partition only grows, so it has lost that. Else -1.
  int64_t WentBack(int32_t partition, int64_t first, int64_t last);
  // Its number of partitions seems to be this. Brokers learn of partitions that are added by and by: where that is
  // fewer than were known, the cluster has to say so, a while later.
  void Counted(size_t count, int64_t now);
  bool SeemsToHaveFewer(int64_t now) const { return fewer_at >= 0 && now >= fewer_at; }
  // The cluster says so. Returns the first partition with acknowledged records that is no more, and in `before` where
  // its newest one was; -1: none. Those are forgotten.
  int32_t TakeGone(size_t count, int64_t* before);
  // Counts a refusal of unknown meaning; returns how many there were in a row. `partition` -1: none.
  uint32_t Puzzled(int32_t partition);
  // What waits for a partition waits for the topic itself, in the same order.
  void LineUp();
  // The producer is gone. Nothing waits for a partition.
  void Reset();
  // Call when none of its records is in the library.
  void EndCare();
  void AskAgain();
};

// The topics of a sink, by name; they live as long as it does.
class TopicTable {
 public:
  explicit TopicTable(int64_t raise_micros) : raise_micros_(raise_micros) {}
  Topic* Find(std::string_view name);  // made if it is new
  auto begin() { return topics_.begin(); }
  auto end() { return topics_.end(); }
  void Clear();

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, std::unique_ptr<Topic>, Hash, std::equal_to<>> topics_;
  Topic* last_ = nullptr;  // found
  const int64_t raise_micros_;
};

}  // namespace outbox::sink::kafka
