// The life of producers: start, end, start again.
#include "sink/kafka/kafka_sink.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/monotonic.h"
#include "sink/kafka/errors.h"

namespace outbox::sink::kafka {
namespace {

constexpr int64_t kSecond = 1'000'000;
constexpr int64_t kEndMicros = 5 * kSecond;      // wait for what is in flight when a producer ends
constexpr int64_t kPurgeMicros = 1 * kSecond;    // and for the reports of what was purged
constexpr int64_t kDestroyMicros = 2 * kSecond;  // and for the library to let go, before a new one starts
constexpr int64_t kBackoffMicros = 100'000;
constexpr int64_t kBackoffCapMicros = 10 * kSecond;
constexpr int64_t kCheckMicros = 1 * kSecond;
constexpr int kWarnFailures = 3;  // producers in a row that ended without a delivery and without an event to charge

}  // namespace

Status KafkaSink::Make(const SinkConfig& config, std::unique_ptr<Sink>* sink) {
  Settings settings;
  if (Status status = MakeSettings(config, &settings); !status.ok()) {
    return status;
  }
  return Make(std::move(settings), sink);
}

Status KafkaSink::Make(Settings settings, std::unique_ptr<Sink>* sink) {
  const int event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (event_fd < 0) {
    return Status(ErrorClass::kInternal, "EVENTFD", "could not make an eventfd");
  }
  std::unique_ptr<KafkaSink> made(new KafkaSink(std::move(settings), event_fd));
  made->now_ = MonotonicMicros();
  if (Status status = Producer::Make(made->settings_, event_fd, /*gapless=*/true, &made->producer_); !status.ok()) {
    return status;
  }
  made->producers_ = 1;
  made->phase_ = Phase::kRunning;
  *sink = std::move(made);
  return Status();
}

KafkaSink::~KafkaSink() {
  Close();
}

void KafkaSink::Close() {
  if (phase_ == Phase::kClosed) {
    return;
  }
  auto bytes = std::make_shared<std::vector<std::string>>();
  store_.AbortAll([&](StoredBatch& stored) { bytes->push_back(std::move(stored.batch.records)); });
  store_ = BatchStore();
  topics_.clear();
  last_topic_ = nullptr;
  for (std::unique_ptr<Producer>* each : {&producer_, &careful_}) {
    if (*each != nullptr) {
      Retire(std::move(*each), bytes, nullptr);
    }
  }
  phase_ = Phase::kClosed;
  close(event_fd_);
}

void KafkaSink::Poll(std::vector<Result>* results) {
  if (phase_ == Phase::kClosed) {
    return;
  }
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(event_fd_, &count, sizeof count);
  now_ = MonotonicMicros();
  more_ = false;
  for (Producer* each : {producer_.get(), careful_.get()}) {
    if (each != nullptr) {
      ServeEvents(each, now_);
      each->looker()->Take(&answers_);
    }
  }
  for (const TopicAnswer& answer : answers_) {
    Looked(answer);
  }
  answers_.clear();
  Advance(now_);
  store_.Flush(now_, results);
}

void KafkaSink::AppendWaits(std::vector<WaitSpec>* waits) {
  if (phase_ == Phase::kClosed) {
    return;
  }
  int64_t deadline = store_.deadline();
  const auto earlier = [&](int64_t at) {
    if (at >= 0 && (deadline < 0 || at < deadline)) {
      deadline = at;
    }
  };
  if (more_) {
    earlier(0);
  }
  if (phase_ != Phase::kRunning) {
    earlier(phase_deadline_);
  } else {
    if (!checking_) {
      earlier(check_at_);
    }
    if (full_) {
      earlier(now_ + 10'000);
    }
    earlier(limits_at_);
    if (in_library_ > 0) {
      earlier(stalled_check_at_);
    }
  }
  waits->push_back({event_fd_, true, false, deadline});
}

// Ends the producer after a failed report: nothing more goes in; what is queued comes back, what is in flight is waited
// for.
void KafkaSink::EndProducer(int64_t now) {
  if (phase_ != Phase::kRunning) {
    return;
  }
  Purge(RD_KAFKA_PURGE_F_QUEUE);
  phase_ = Phase::kEnding;
  phase_deadline_ = now + kEndMicros;
}

void KafkaSink::Purge(int what) {
  for (Producer* each : {producer_.get(), careful_.get()}) {
    if (each != nullptr) {
      rd_kafka_purge(each->handle(), what | RD_KAFKA_PURGE_F_NON_BLOCKING);
    }
  }
}

// The producer that the topic's records go by. There is a second one only while a topic needs it.
Producer* KafkaSink::ProducerOf(Topic* topic) {
  if (topic->careful && careful_ == nullptr) {
    topic->careful = topic->to_be_careful = Producer::Make(settings_, event_fd_, /*gapless=*/false, &careful_).ok();
    more_ = true;  // drain what came before the descriptor was armed
  }
  return topic->careful ? careful_.get() : producer_.get();
}

void KafkaSink::EndCareful() {
  if (careful_ == nullptr) {
    return;
  }
  bool needed = false;
  for (auto& [name, topic] : topics_) {
    needed |= topic->careful && !(topic->waiting_records == 0 && EndCare(topic.get()));
  }
  if (!needed) {
    Retire(std::move(careful_), nullptr, nullptr);
  }
}

void KafkaSink::Advance(int64_t now) {
  if (phase_ == Phase::kEnding && in_library_ > 0 && now >= phase_deadline_) {
    // Without this purge some reports never come.
    Purge(RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    phase_ = Phase::kPurging;
    phase_deadline_ = now + kPurgeMicros;
  }
  if ((phase_ == Phase::kEnding || phase_ == Phase::kPurging) && (in_library_ == 0 || now >= phase_deadline_)) {
    RetireProducer(now);
  }
  if (phase_ == Phase::kStopped && now >= phase_deadline_) {
    StartProducer(now);
  }
  if (phase_ != Phase::kRunning) {
    return;
  }
  if (full_) {
    full_ = false;
    ReleaseAll();
  }
  if (check_at_ >= 0 && now >= check_at_ && !checking_) {
    checking_ = true;
    check_at_ = -1;
    producer_->CheckConnection();
  }
  if (limits_at_ >= 0 && now >= limits_at_) {
    AskForLimits(now);
  }
  if (now >= stalled_check_at_) {
    stalled_check_at_ = now + kSecond;
    FindStalled(now);
    EndCareful();
  }
}

void KafkaSink::RetireProducer(int64_t now) {
  // The library may still look at bytes of records that it gave no report for.
  auto bytes = std::make_shared<std::vector<std::string>>();
  FailStalled(bytes.get());
  store_.AbortAll([&](StoredBatch& stored) {
    gate_.Poison(stored.batch.flow, stored.batch.epoch);
    bytes->push_back(std::move(stored.batch.records));
  });
  for (auto& [name, topic] : topics_) {
    topic->Reset();
  }
  in_library_ = 0;
  waiting_records_ = 0;
  full_ = false;
  more_ = false;
  checking_ = false;
  check_at_ = -1;
  finding_since_ = 0;
  retired_.clear();
  retired_by_ = now + kDestroyMicros;
  for (std::unique_ptr<Producer>* each : {&producer_, &careful_}) {
    if (*each != nullptr) {
      retired_.push_back(std::make_shared<std::atomic<bool>>(false));
      Retire(std::move(*each), bytes, retired_.back());
    }
  }
  phase_ = Phase::kStopped;
  const int64_t backoff =
      failures_ == 0 ? 0 : std::min(kBackoffMicros << std::min(failures_ - 1, 10), kBackoffCapMicros);
  ++failures_;
  phase_deadline_ = now + backoff;
  if (failures_ >= kWarnFailures && !ended_by_.ok()) {
    SetWarning(ended_by_);
  }
}

void KafkaSink::StartProducer(int64_t now) {
  if (now < retired_by_ &&
      !std::all_of(retired_.begin(), retired_.end(), [](const auto& done) { return done->load(); })) {
    phase_deadline_ = now + 2'000;  // what is on the old one's connections goes before the new one's records
    return;
  }
  if (Status status = Producer::Make(settings_, event_fd_, /*gapless=*/true, &producer_); !status.ok()) {
    SetDown(status.error(), now);
    phase_deadline_ = now + kBackoffCapMicros;
    return;
  }
  ++producers_;
  phase_ = Phase::kRunning;
  stalled_check_at_ = now + kSecond;
  more_ = true;  // drain what came before the descriptor was armed
  if (down_by_fatal_) {
    down_by_fatal_ = false;
    SetUp();  // the next delivery, or the next failure, will tell
  } else if (!health_.up) {
    check_at_ = now;
  }
  ReleaseAll();
}

void KafkaSink::SetUp() {
  if (!health_.up) {
    health_.up = true;
    health_.error = {};
    ++health_.changes;
  }
  last_trouble_.clear();
  check_at_ = -1;
}

void KafkaSink::SetWarning(Error warning) {
  if (warning.code != health_.warning.code) {
    health_.warning = std::move(warning);
    ++health_.changes;
  }
}

void KafkaSink::SetDown(Error error, int64_t now) {
  // The library's texts vary from one attempt to the next; the first says what happened.
  if (health_.up || health_.error.code != error.code || health_.error.error_class != error.error_class) {
    health_.up = false;
    health_.error = std::move(error);
    ++health_.changes;
  }
  if (check_at_ < 0 && !down_by_fatal_) {
    check_at_ = now + kCheckMicros;
  }
}

}  // namespace outbox::sink::kafka
