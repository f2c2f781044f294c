#include "sink/kafka/topic_trouble.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <utility>

#include "base/monotonic.h"
#include "sink/kafka/metadata.h"

namespace outbox::sink::kafka {
namespace {

constexpr int64_t kLongestMicros = 300 * kSecond;  // between two producers ended for one topic

}  // namespace

Error TopicTrouble::StalledError(const std::string& topic) const {
  if (!leaderless_ && !refusal_.ok()) {
    return {ErrorClass::kTopic, "BROKER_REFUSES",
            refusal_.message + ": so topic \"" + topic + "\", of which this broker leads partitions, takes nothing"};
  }
  const bool no_id = !leaderless_ && !no_id_.empty();
  const bool closed = !leaderless_ && !no_id && closed_bytes_ > 0;
  return {ErrorClass::kTopic, "STALLED",
          "topic \"" + topic + "\" takes nothing though the cluster answers: " +
              (leaderless_ ? "a partition has no leader"
               : no_id     ? "the brokers gave no producer id, without which nothing is sent (" + no_id_ +
                             "): is there an active controller?"
               : closed ? "the connection is closed each time that a record of " + std::to_string(closed_bytes_) +
                              " bytes is sent, which may be above the broker's socket.request.max.bytes, or a proxy's "
                              "limit"
                        : "a partition may have too few replicas in sync, or a broker that hangs") +
              (said_.empty() || closed || no_id ? "" : "; the last trouble with a connection was: " + said_)};
}

Error TopicTrouble::PartError(const std::string& topic) const {
  return {ErrorClass::kTopic, kPartOfTopic,
          std::to_string(std::count(lacking_.begin(), lacking_.end(), true)) + " of " +
              std::to_string(lacking_.size()) + " partitions of topic \"" + topic +
              "\" have no leader: what belongs there waits, the others go on" +
              (said_.empty() ? "" : "; the last trouble with a connection was: " + said_)};
}

int32_t TopicTrouble::Led(int32_t partition) const {
  const auto count = static_cast<int32_t>(lacking_.size());
  for (int32_t i = 0; i < count; ++i) {
    if (!lacking_[static_cast<size_t>((partition + i) % count)]) {
      return (partition + i) % count;
    }
  }
  return partition;
}

void TopicTrouble::Fail() {
  if (!failed_) {
    failed_ = true;
    answered_before_ = 0;
  }
}

void TopicTrouble::Stall(int64_t now, int64_t after, std::string said, Error refusal, bool explained) {
  said_ = std::move(said);
  refusal_ = std::move(refusal);
  // Without a producer id the others take nothing either: there is nobody to be spared by waiting for longer each time.
  const uint32_t doublings = no_id_.empty() ? std::min(stalls_, 10u) : 0;
  stalled_until_ = explained ? now : now + std::min(after << doublings, kLongestMicros);
  ++stalls_;
  in_part_ = lacks_some();
}

void TopicTrouble::Acknowledged(int32_t partition) {
  failed_ = false;
  known_ = true;
  stalls_ = 0;
  leaderless_ = false;
  if (partition >= 0 && Lacks(static_cast<size_t>(partition))) {
    lacking_[static_cast<size_t>(partition)] = false;
  }
}

void TopicTrouble::Ask(uint64_t next_seq) {
  asked_ = true;
  asked_before_ = next_seq;
}

bool TopicTrouble::Better(const TopicAnswer& answer) const {
  if (leaderless_ && !answer.leaderless) {
    return true;
  }
  for (size_t i = 0; i < std::min(in_sync_.size(), answer.in_sync.size()); ++i) {
    if (answer.in_sync[i] > in_sync_[i] || answer.leaders[i] != leaders_[i]) {
      return true;
    }
  }
  return false;
}

void TopicTrouble::Answered(const TopicAnswer& answer, int64_t now) {
  answered_before_ = asked_before_;
  asked_ = false;
  asked_before_ = 0;
  code_ = answer.code;
  if (answer.answered) {
    if (Better(answer)) {
      stalled_until_ = std::min(stalled_until_, now);
    }
    leaders_ = answer.leaders;
    in_sync_ = answer.in_sync;
  }
  failed_ = answer.answered && answer.code != RD_KAFKA_RESP_ERR_NO_ERROR &&
            answer.code != RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE;
  known_ |= answer.answered && !failed_;
  leaderless_ = answer.answered ? answer.leaderless : leaderless_;
  if (answer.answered) {
    const auto count = std::count(answer.lacking.begin(), answer.lacking.end(), true);
    const bool some = count > 0 && static_cast<size_t>(count) < answer.lacking.size();
    lacking_ = some ? answer.lacking : std::vector<bool>();
    in_part_ = some && (in_part_ || stalls_ > 0);
  }
}

void TopicTrouble::ForgetAnswers() {
  asked_ = false;
  asked_before_ = answered_before_ = 0;
  code_ = 0;
}

void TopicTrouble::ProducerEnded() {
  ForgetAnswers();
  failed_ = false;
}

}  // namespace outbox::sink::kafka
