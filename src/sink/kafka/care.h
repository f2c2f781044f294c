// Whether a topic is careful [-]: it refuses records for reasons that cannot be known before, or is refused itself, so
// for a while they go by a producer that a refusal does not end, one at a time in each partition. Times are monotonic
// microseconds. Survives producers.
#pragma once

#include <algorithm>
#include <cstdint>

namespace outbox::sink::kafka {

class Care {
 public:
  bool taken() const { return state_ == State::kTaken; }
  bool over(int64_t now) const { return now >= until_; }

  // A record was refused. Care is taken from the next producer on, as this one has ended, or goes on.
  void Refused(int64_t now) {
    if (state_ == State::kNone) {
      duration_ =
          until_ != 0 && now - until_ < kForgetMicros ? std::min(4 * duration_, kLongestMicros) : kShortestMicros;
      state_ = State::kWithNextProducer;
    }
    until_ = now + duration_;
  }
  // A broker has refused the topic itself, which is tried again twice a minute: care is taken until it takes a record.
  void Denied(int64_t now) {
    Refused(now);
    denied_ = true;
    until_ = now + kDeniedMicros;
  }
  void Acknowledged(int64_t now) {
    if (denied_) {
      denied_ = false;
      until_ = now;
    }
  }
  // One of its records may be why a broker closes the connection.
  void Suspected(int64_t now) {
    state_ = state_ == State::kNone ? State::kWithNextProducer : state_;
    suspected_ = true;
    duration_ = kLongestMicros;
    until_ = now + duration_;
  }
  bool suspected() const { return suspected_; }
  void ProducerEnded() { state_ = state_ == State::kNone ? State::kNone : State::kTaken; }
  void End() {
    state_ = State::kNone;
    suspected_ = denied_ = false;
  }

 private:
  static constexpr int64_t kShortestMicros = 500'000;
  static constexpr int64_t kLongestMicros = 8'000'000;
  static constexpr int64_t kDeniedMicros = 60'000'000;
  static constexpr int64_t kForgetMicros = 60'000'000;  // after so long without a refusal earlier ones do not count

  enum class State : uint8_t { kNone, kWithNextProducer, kTaken };
  State state_ = State::kNone;
  bool suspected_ = false;
  bool denied_ = false;
  int64_t until_ = 0;     // each refusal prolongs it by duration_
  int64_t duration_ = 0;  // longer each time that it soon becomes careful again
};

}  // namespace outbox::sink::kafka
