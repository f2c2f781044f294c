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
#include <string>
#include <vector>

#include "base/status.h"

namespace outbox::sink::kafka {

struct TopicAnswer;
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

struct Topic;
Error StalledError(const Topic& topic);

inline constexpr int64_t kRaiseMicros = int64_t{60} * 1'000'000;  // until larger batches are tried the first time

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
  std::string name;
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

  // The cluster says that it is missing or forbidden: the last try to find it failed, or the answer to a question said
  // so.
  bool failed = false;

  // In trouble (failed, or stalled) the cluster is asked before another record is risked; its records wait for the
  // answer.
  struct Look {
    bool asked = false;         // the answer is on its way, by this producer
    uint64_t asked_before = 0;  // records with lower numbers came before the question
    uint64_t before = 0;        // the same of the last answer
    int code = 0;               // what that said of the topic
  } look;

  // After a batch was refused, at most `window` bytes are in flight per partition: one record at first, so that a
  // refused record is alone in its batch and the verdict is its own. Survives the producer.
  uint64_t window = 0;    // 0: no limit
  uint64_t ceiling = 0;   // what it grows to: below what was too large; kNoCeiling: then there is no limit any more
  uint64_t suspects = 0;  // it stays at one record until so many were acknowledged
  // A topic's limit may be raised: from raise_at on the ceiling doubles every few seconds until something is refused
  // again; then the next try waits twice as long.
  int64_t raise_at = 0;
  int64_t raise_after = kRaiseMicros;
  bool raised = false;

  // What the topic's settings are known to refuse: asked of the broker once a record was refused alone, so that the
  // next of its kind costs no producer. Only as fresh as the last answer; survives the producer.
  struct Limits {
    bool wanted = false;     // a record was refused for what they say
    bool asked = false;      // the answer is on its way, to this producer
    int64_t hold_until = 0;  // until then the topic's records wait for an answer that is about to come; 0: they do not
    int64_t asked_at = 0;    // last
    int64_t until = 0;       // the answer counts until then; 0: none
    uint64_t max_bytes = 0;  // max.message.bytes
    bool compacted = false;  // takes no record without a key
    int64_t used_at = 0;     // something was refused by them
  } limits;

  // It refuses records for reasons that cannot be known before: for a while they go by a producer that a refusal does
  // not end, one at a time in each partition. Survives the producer.
  bool careful = false;
  bool to_be_careful = false;  // with the next producer: this one has ended
  int64_t careful_until = 0;   // each refusal prolongs it by careful_for
  int64_t careful_for = 0;     // longer each time that it soon becomes so again

  // Refusals in a row with a code of note kCapped, by partition (the first: no partition). Survives the producer.
  std::vector<uint32_t> puzzles;

  // It took nothing for long while the cluster was up. Survives the producer; over with the next acknowledgement.
  uint32_t stalls = 0;        // producers ended for it in a row; 0: not stalled
  int64_t stalled_until = 0;  // no other producer is risked for it before
  bool leaderless = false;    // a partition had no leader when last looked at

  bool InTrouble() const { return failed || stalls > 0; }
  // A try to find it has failed; the last answer, if it was a better one, is out of date.
  void Fail();
  // The answer to a question about it.
  void Looked(const TopicAnswer& answer, int64_t now);
  // The producer is gone. Records still waiting have been aborted.
  void Reset();
  void BeCareful(int64_t now);
  // Call when none of its records is in the library.
  void EndCare();
  // A batch was refused, and any of its records may be why. `too_large`: rather its size than one of them.
  void Refused(uint32_t count, uint64_t bytes, bool too_large, int64_t now);
  // The topic's settings allow no batch larger than this.
  void LimitBatches(uint64_t most);
  void Acknowledged(int32_t partition, uint32_t count, uint64_t bytes, int64_t now);
  // Counts a refusal of unknown meaning; returns how many there were in a row. `partition` -1: none.
  uint32_t Puzzled(int32_t partition);
  // Whether a record of this size may go into the library now.
  bool Admits(const Partition& partition, uint64_t bytes) const;
};

}  // namespace outbox::sink::kafka
