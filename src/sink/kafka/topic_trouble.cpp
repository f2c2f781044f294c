#include "sink/kafka/topic_trouble.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <utility>

#include "sink/kafka/metadata.h"

namespace outbox::sink::kafka {
namespace {

constexpr int64_t kLongestMicros = int64_t{300} * 1'000'000;  // between two producers ended for one topic

}  // namespace

Error TopicTrouble::StalledError(const std::string& topic) const {
  if (!leaderless_ && !refusal_.ok()) {
    return {ErrorClass::kTopic, "BROKER_REFUSES",
            refusal_.message + ": so topic \"" + topic + "\", of which this broker leads partitions, takes nothing"};
  }
  return {ErrorClass::kTopic, "STALLED",
          "topic \"" + topic + "\" takes nothing though the cluster answers: " +
              (leaderless_ ? "a partition has no leader"
                           : "a partition may have too few replicas in sync, or a broker that hangs") +
              (said_.empty() ? "" : "; the last trouble with a connection was: " + said_)};
}

void TopicTrouble::Fail() {
  if (!failed_) {
    failed_ = true;
    answered_before_ = 0;
  }
}

void TopicTrouble::Stall(int64_t now, int64_t after, std::string said, Error refusal) {
  said_ = std::move(said);
  refusal_ = std::move(refusal);
  stalled_until_ = now + std::min(after << std::min(stalls_, 10u), kLongestMicros);
  ++stalls_;
}

void TopicTrouble::Acknowledged() {
  failed_ = false;
  stalls_ = 0;
  leaderless_ = false;
}

void TopicTrouble::Ask(uint64_t next_seq) {
  asked_ = true;
  asked_before_ = next_seq;
}

void TopicTrouble::Answered(const TopicAnswer& answer, int64_t now) {
  answered_before_ = asked_before_;
  asked_ = false;
  asked_before_ = 0;
  code_ = answer.code;
  if (answer.answered) {
    leaders_ = answer.leaders;
  }
  failed_ = answer.answered && answer.code != RD_KAFKA_RESP_ERR_NO_ERROR &&
            answer.code != RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE;
  if (answer.answered && leaderless_ && !answer.leaderless) {
    stalled_until_ = now;  // it has leaders again: another producer may be risked
  }
  leaderless_ = answer.answered ? answer.leaderless : leaderless_;
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
