// What a topic's settings are known to refuse [-].
//
// A record that a broker refuses costs a producer, and with it a moment of every topic and lane; where one in ten is
// refused for the same setting of its topic, that is nearly all the time. So the setting is asked for after the first,
// and the next are refused by the sink: max.message.bytes, and cleanup.policy (a compacted topic takes no record
// without a key). Without the right to ask (DescribeConfigs) the topic is careful (care.h).
//
// message.timestamp.before.max.ms is one more, of which nothing but time comes: an event that is too old gets older. A
// topic with message.timestamp.type=LogAppendTime takes events of any age, whatever that says.
//
// Only as fresh as the last answer; survives producers. Times are monotonic microseconds. limits.cpp has KafkaSink's
// part, too.
#pragma once

#include <librdkafka/rdkafka.h>

#include <cstdint>
#include <limits>

#include "base/status.h"

namespace outbox::sink {
struct Record;
}

namespace outbox::sink::kafka {

class TopicLimits {
 public:
  // The error code that the record would be refused with; 0: not known. `compresses`: it may take less than it has.
  int Refuses(const Record& record, bool compresses, int64_t now, int64_t wall_ms);
  // A record with this time was refused for it. If it is too old it never becomes acceptable: the class is the record's
  // own, and another one where the settings are not known; but where they may not be read, and one that was no older
  // was refused before (the same one may have been), the topic takes none of that age. Else it is a clock that is
  // wrong, so the topic's trouble.
  ErrorClass ClassOfTimestamp(int64_t timestamp_ms, int64_t wall_ms);
  // A record was refused for what may be in the settings. Returns true if the topic's other records are to wait for the
  // answer: it is not known yet that there is none.
  bool Want(int64_t now);

  bool known() const { return until_ != 0; }  // there was an answer, if perhaps an old one
  bool fresh(int64_t now) const { return now < until_; }
  uint64_t max_bytes() const { return max_bytes_; }
  // The topic's records wait for an answer that is about to come, but no longer than this; 0: they do not.
  int64_t hold_until() const { return hold_until_; }
  void EndHold() { hold_until_ = 0; }

  // Whether the settings are of use at all; forgets them when they have not been for long.
  bool Wanted(int64_t now);
  // Whether they are to be asked for now; then takes the question for asked.
  bool Ask(int64_t now);
  int64_t next_at(int64_t now) const;  // when to look again
  void Answered(rd_kafka_event_t* event, int64_t now);
  void ProducerEnded();  // it will not be answered: the next producer is to ask at once

 private:
  static constexpr int64_t kAnyAge = std::numeric_limits<int64_t>::max();
  enum class Question : uint8_t {
    kNone,
    kWanted,  // a record was refused for what they say
    kAsked,   // and the answer is on its way, to this producer
  };
  Question question_ = Question::kNone;
  int64_t hold_until_ = 0;
  int64_t asked_at_ = 0;              // last
  int64_t until_ = 0;                 // the answer counts until then; 0: none
  uint64_t max_bytes_ = 0;            // max.message.bytes
  bool compacted_ = false;            // takes no record without a key
  int64_t most_age_ms_ = kAnyAge;     // message.timestamp.before.max.ms
  int64_t refused_age_ms_ = kAnyAge;  // the least that was refused, where the settings are not known
  // An event of just now was refused for its time: until then the refusal of an older one says nothing.
  int64_t clock_until_ms_ = 0;
  int64_t used_at_ = 0;  // something was refused by them
};

}  // namespace outbox::sink::kafka
