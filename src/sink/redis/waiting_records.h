// What waits to be sent to Redis, taken in parts, and what becomes of them [-].
//
// Records become commands when they come; the writer decides when a part of them goes, and how: in a transaction or one
// by one. What the server answers is judged here. A record that was refused is told to the owner and bars what is
// behind it in its flow; what was not written for no fault of its own waits again, in front.
//
// Records that were on their way when the connection was closed are sent in smaller groups (suspects.h).
//
// Used by one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sink/redis/record_outcomes.h"
#include "sink/redis/reply.h"
#include "sink/redis/resp.h"
#include "sink/redis/suspects.h"
#include "sink/redis/targets.h"
#include "sink/sink.h"

namespace outbox::sink {

// Records of one target that are on their way together.
struct Part {
  Target* target = nullptr;
  std::vector<Entry> entries;
  size_t bytes = 0;
  size_t commands = 0;
  uint64_t key_hash = 0;  // where records go one by one: what is in target->busy for it
  Error refused = {};     // the first refusal of one of its commands, before EXEC
};
using Parts = std::deque<Part>;

// An error that is a record's own, where it is not known which one's.
Error OneOf(Error error, size_t records);
Error UnexpectedReply();
// Whether each command of each part has the answer of one that was executed.
bool AllWritten(const Parts& parts, std::span<const ReplyView> answers);

class WaitingRecords {
 public:
  // `maxlen`: what streams are trimmed to, "": never.
  explicit WaitingRecords(std::string maxlen) : targets_(std::move(maxlen)) {}

  void Submit(Batch batch);

  // How many may go together with the first record of the target's queue, which is not empty. See Suspects.
  size_t TogetherWithNext(const Target& target) const;
  // As much as fits of what waits for it, one record at least, and none behind it that the group does not take; without
  // a group none behind it that is suspected.
  Part Take(Target* target, size_t records, size_t bytes, Group* group);
  // Gives up the first record, at which the server closes the connection.
  void RefuseNext(Target* target);

  // `answers`: one of each command of the part.
  void Judge(Part part, std::span<const ReplyView> answers);
  // What is known of the records behind one that failed.
  enum class Others : uint8_t { kUnknown, kUnwritten, kAnswered };
  // The first `done` were written, the next one failed with `error`; the rest is aborted or put back. `answers`: of
  // each command, where they were answered.
  void Stopped(Part part, size_t done, Error error, Others others, std::span<const ReplyView> answers);
  // Some were not written, for no fault of theirs.
  void PutBack(Part part);
  // The other side has closed the connection with these on their way.
  void Suspect(std::initializer_list<const Parts*> on_their_way);
  // Its answers will never come.
  void AbortSent(Part part);
  void AbortWaiting();
  // Forgets everything; nothing is reported afterwards.
  void Clear();

  Targets* targets() { return &targets_; }
  Suspects* suspects() { return &suspects_; }
  Outcomes* outcomes() { return &outcomes_; }
  const Outcomes& outcomes() const { return outcomes_; }
  // Whether there was ever a record for a stream.
  bool has_streams() const { return has_streams_; }
  // An answer after which the connection is of no use. Not ok() once after such a reply.
  Error TakeReconnect() { return std::exchange(reconnect_, {}); }

 private:
  void AbortBarred(uint32_t flow);

  Targets targets_;
  Outcomes outcomes_;
  Suspects suspects_;
  bool has_streams_ = false;
  Error reconnect_;
  Record scratch_;        // keeps its memory, as the next does
  resp::Buffer encoded_;  // of the batch that is being submitted
};

}  // namespace outbox::sink
