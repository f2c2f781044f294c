#include "sink/kafka/producers.h"

#include <algorithm>
#include <utility>

#include "base/monotonic.h"

namespace outbox::sink::kafka {
namespace {

constexpr int64_t kEndMicros = 5 * kSecond;      // wait for what is in flight when a producer ends
constexpr int64_t kAgainMicros = 50'000;         // looking again meanwhile for what has come back to the queue
constexpr int64_t kPurgeMicros = 1 * kSecond;    // and for the reports of what was purged
constexpr int64_t kDestroyMicros = 2 * kSecond;  // and for the library to let go, before a new one starts
constexpr int64_t kStayMicros = 1 * kSecond;     // a producer lives so long, whoever closes its connections
constexpr int64_t kBackoffMicros = 100'000;
constexpr int64_t kBackoffCapMicros = 10 * kSecond;
constexpr int kWarnFailures = 3;

}  // namespace

Status Producers::Start(int64_t now) {
  if (now < retired_by_ &&
      !std::all_of(retired_.begin(), retired_.end(), [](const auto& retired) { return retired.expired(); })) {
    deadline_ = now + 2'000;  // what is on the old one's connections goes before the new one's records
    return Status();
  }
  files_.Note();
  if (Status status = life_.make(settings_, event_fd_, /*gapless=*/true, &main_); !status.ok()) {
    deadline_ = now + kBackoffCapMicros;
    return status;
  }
  phase_ = Phase::kRunning;
  deadline_ = now + kStayMicros;
  return Status();
}

bool Producers::CutOff(bool but_careful) const {
  return (main_ != nullptr && main_->cut_off()) || (!but_careful && careful_ != nullptr && careful_->cut_off());
}

void Producers::Leave() {
  if (phase_ == Phase::kRunning) {
    phase_ = Phase::kLeaving;
  }
}

bool Producers::MakeCareful() {
  return careful_ != nullptr || life_.make(settings_, event_fd_, /*gapless=*/false, &careful_).ok();
}

void Producers::EndCareful() {
  LetGo(std::move(careful_), nullptr);
}

void Producers::End(int64_t now) {
  if (!running()) {
    return;
  }
  Purge(RD_KAFKA_PURGE_F_QUEUE);
  phase_ = Phase::kEnding;
  deadline_ = now + kEndMicros;
  purge_at_ = now + kAgainMicros;
}

void Producers::Purge(int what) {
  ForEach([what](Producer* each) { rd_kafka_purge(each->handle(), what | RD_KAFKA_PURGE_F_NON_BLOCKING); });
}

bool Producers::Ended(uint32_t in_library, int64_t now) {
  if (phase_ == Phase::kLeaving) {
    return in_library == 0 && now >= deadline_;
  }
  if (phase_ == Phase::kEnding && in_library > 0 && now >= purge_at_) {
    // A batch that failed for a reason to try it again is in the queue again, and a handle that is to end sends
    // nothing.
    Purge(RD_KAFKA_PURGE_F_QUEUE);
    purge_at_ = now + kAgainMicros;
  }
  if (phase_ == Phase::kEnding && in_library > 0 && now >= deadline_) {
    // Without this purge some reports never come.
    Purge(RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    phase_ = Phase::kPurging;
    deadline_ = now + kPurgeMicros;
  }
  return (phase_ == Phase::kEnding || phase_ == Phase::kPurging) && (in_library == 0 || now >= deadline_);
}

std::weak_ptr<void> Producers::LetGo(std::unique_ptr<Producer> producer,
                                     const std::shared_ptr<std::vector<std::string>>& bytes) {
  producer->Mute();
  auto after = std::make_shared<std::shared_ptr<std::vector<std::string>>>(bytes);
  std::weak_ptr<void> gone = after;
  life_.destroy(std::move(producer), std::move(after));
  return gone;
}

void Producers::Retire(const std::shared_ptr<std::vector<std::string>>& bytes, int64_t now) {
  retired_.clear();
  retired_by_ = now + kDestroyMicros;
  for (std::unique_ptr<Producer>* each : {&main_, &careful_}) {
    if (*each != nullptr) {
      retired_.push_back(LetGo(std::move(*each), bytes));
    }
  }
  const bool left = phase_ == Phase::kLeaving;
  phase_ = Phase::kStopped;
  if (left) {
    deadline_ = now;
    return;
  }
  deadline_ = now + (failures_ == 0 ? 0 : std::min(kBackoffMicros << std::min(failures_ - 1, 10), kBackoffCapMicros));
  ++failures_;
}

void Producers::Close(const std::shared_ptr<std::vector<std::string>>& bytes) {
  for (std::unique_ptr<Producer>* each : {&main_, &careful_}) {
    if (*each != nullptr) {
      LetGo(std::move(*each), bytes);
    }
  }
  phase_ = Phase::kClosed;
}

void Producers::EndedBy(Error error, bool first) {
  if (!first || ended_by_.ok()) {
    ended_by_ = std::move(error);
  }
}

const Error* Producers::Warning() const {
  return failures_ >= kWarnFailures && !ended_by_.ok() ? &ended_by_ : nullptr;
}

void Producers::Delivered() {
  failures_ = 0;
  ended_by_ = {};
}

}  // namespace outbox::sink::kafka
