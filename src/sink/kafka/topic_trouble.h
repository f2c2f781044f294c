// A topic that is missing, forbidden, or takes nothing, and what the cluster says of it [-].
//
// While it is in trouble the cluster is asked before another record is risked; its records wait for the answer. Times
// are monotonic microseconds.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace outbox::sink::kafka {

struct TopicAnswer;

class TopicTrouble {
 public:
  bool any() const { return failed_ || stalls_ > 0; }
  // The cluster says that it is missing or forbidden: the last try to find it failed, or the last answer said so.
  bool failed() const { return failed_; }
  // A producer was ended because it took nothing; over with the next acknowledgement.
  bool stalled() const { return stalls_ > 0; }
  // It stalled a producer and may not be tried: while all of it has no leader, or before its delay has passed.
  bool StillStalled(int64_t now) const { return stalls_ > 0 && ((leaderless_ && !in_part_) || now < stalled_until_); }
  // It stalled a producer, and since then some of its partitions have no leader, and others have: what is for the
  // former is refused, and the cluster asked again and again.
  bool in_part() const { return in_part_; }
  // Whether a partition has no leader, as of the last answer; false where none has.
  bool Lacks(size_t partition) const { return partition < lacking_.size() && lacking_[partition]; }
  bool lacks_some() const { return !lacking_.empty(); }
  // The first partition at or after this one (and then the first of all) that has a leader; `partition` itself where
  // nothing is known.
  int32_t Led(int32_t partition) const;
  // Whether a producer may end for it sooner than for others: not where one did, and it was to be let alone then until
  // after `before`.
  bool MayStallEarly(int64_t before) const { return stalled_until_ <= before; }
  Error StalledError(const std::string& topic) const;
  Error PartError(const std::string& topic) const;  // of a record for a partition that Lacks()

  // A try to find it has failed; the last answer, if it was a better one, is out of date.
  void Fail();
  // It took nothing for `after` though the cluster answers: the producer ends.
  // `said`: the newest trouble with a connection, for people; may be empty. `refusal`: why a broker that leads
  // partitions of it lets nobody in, if one does. `explained`: nothing waited but what is for partitions that Lacks(),
  // so the others need not be let alone.
  void Stall(int64_t now, int64_t after, std::string said, Error refusal, bool explained);
  // Call before. Connections are closed while a record of it is alone in flight, of so many bytes; 0: no.
  void NoteClosed(uint64_t bytes) { closed_bytes_ = bytes; }
  // Likewise. What a broker said when it gave no producer id: nothing of any topic is sent without. "": none said so.
  void NoteNoId(std::string said) { no_id_ = std::move(said); }
  void Acknowledged(int32_t partition);

  // Whether the cluster has yet to be asked for the record of this number; `doubted`: about a topic that nothing is
  // known of, too.
  bool MustAsk(uint64_t seq, bool doubted) const { return (any() || (doubted && !known_)) && seq >= answered_before_; }
  bool asked() const { return asked_; }  // the answer is on its way, by this producer
  // Records with numbers below `next_seq` came before the question.
  void Ask(uint64_t next_seq);
  void Answered(const TopicAnswer& answer, int64_t now);
  int code() const { return code_; }  // what the last answer said
  // The addresses of its leaders, by partition, as of the last answer.
  const std::vector<std::string>& leaders() const { return leaders_; }

  // The topic goes by another producer now, which was not asked.
  void ForgetAnswers();
  // Its producer has ended; whether the topic is missing is for the next one to find out.
  void ProducerEnded();

 private:
  // Whether the answer, beside the last one, gives hope: another producer may be risked.
  bool Better(const TopicAnswer& answer) const;

  bool failed_ = false;
  bool known_ = false;         // something of it was acknowledged, or the cluster has said that it is there
  bool leaderless_ = false;    // a partition had no leader at the last answer
  std::vector<bool> lacking_;  // by partition: it had none, and others had; empty: all had one, or none
  bool in_part_ = false;
  uint32_t stalls_ = 0;        // producers ended for it in a row; 0: not stalled
  int64_t stalled_until_ = 0;  // no other producer is risked for it before
  bool asked_ = false;
  uint64_t asked_before_ = 0;
  uint64_t answered_before_ = 0;  // the same of the last answer
  int code_ = 0;
  std::vector<std::string> leaders_;
  std::vector<int> in_sync_;  // replicas, by partition, as of the last answer
  std::string said_;          // when it stalled, as the next
  Error refusal_;
  uint64_t closed_bytes_ = 0;
  std::string no_id_;
};

}  // namespace outbox::sink::kafka
