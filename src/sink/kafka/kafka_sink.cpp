// The sink as its owner sees it, and what happens with records and topics when producers end and start.
#include "sink/kafka/kafka_sink.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "base/monotonic.h"

namespace outbox::sink::kafka {
namespace {

// The library repeats an error of a broker every 30 s.
constexpr int64_t kTroubleMicros = 60 * kSecond;

}  // namespace

Status KafkaSink::Make(const SinkConfig& config, std::unique_ptr<Sink>* sink) {
  Settings settings;
  if (Status status = MakeSettings(config, &settings); !status.ok()) {
    return status;
  }
  return Make(std::move(settings), sink);
}

Status KafkaSink::Make(Settings settings, std::unique_ptr<Sink>* sink, ProducerLife life) {
  const int event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (event_fd < 0) {
    return Status(ErrorClass::kDestination, "CLIENT", std::string("could not make an eventfd: ") + strerror(errno));
  }
  std::unique_ptr<KafkaSink> made(new KafkaSink(std::move(settings), event_fd, std::move(life)));
  made->now_ = MonotonicMicros();
  if (Status status = made->producers_.Start(made->now_); !status.ok()) {
    return status;
  }
  *sink = std::move(made);
  return Status();
}

KafkaSink::~KafkaSink() {
  Close();
}

void KafkaSink::Close() {
  if (producers_.closed()) {
    return;
  }
  auto bytes = std::make_shared<std::vector<std::string>>();
  store_.AbortAll([&](StoredBatch& stored) { bytes->push_back(std::move(stored.batch.records)); });
  store_ = BatchStore();
  topics_.Clear();
  producers_.Close(bytes);
  close(event_fd_);
}

void KafkaSink::Poll(std::vector<Result>* results) {
  if (producers_.closed()) {
    return;
  }
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(event_fd_, &count, sizeof count);
  now_ = MonotonicMicros();
  more_ = false;
  producers_.ForEach([this](Producer* each) {
    ServeEvents(each, now_);
    NoteThrottled(each, now_);
    const size_t before = answers_.size();
    each->metadata()->Take(&answers_);
    for (size_t i = before; i < answers_.size(); ++i) {
      Meet(each, answers_[i], now_);
    }
    ServeKept(each, now_);
    each->AskWho(now_);
  });
  for (const TopicAnswer& answer : answers_) {
    if (!answer.who) {
      ClusterAnswered(answer);
    }
  }
  answers_.clear();
  Advance(now_);
  store_.Flush(now_, results);
}

void KafkaSink::AppendWaits(std::vector<WaitSpec>* waits) {
  if (producers_.closed()) {
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
  producers_.ForEach([&](const Producer* each) { earlier(each->ask_who_at()); });
  if (!producers_.taking() && !(producers_.running() && in_library_ > 0)) {
    earlier(producers_.deadline());
  }
  if (producers_.running()) {
    earlier(health_.ask_at());
    earlier(health_.lost_until());
    if (full_) {
      earlier(now_ + 10'000);
    }
    earlier(limits_at_);
    earlier(files_at_);
    if (waiting_records_ > 0 && throttle_.until() > now_) {
      earlier(throttle_.until());
    }
    if (in_library_ > 0 || stalled_.asks || throttle_.on()) {
      earlier(stalled_.next_at);
    }
  }
  waits->push_back({event_fd_, true, false, deadline});
}

// The producer that the topic's records go by. There is a second one only while a topic needs it.
Producer* KafkaSink::ProducerOf(Topic* topic) {
  if (topic->care.taken() && producers_.careful() == nullptr) {
    if (!producers_.MakeCareful()) {
      topic->care.End();
    }
    more_ = true;  // drain what came before the descriptor was armed
  }
  return topic->care.taken() ? producers_.careful() : producers_.main();
}

void KafkaSink::EndCareful() {
  bool needed = false;
  closed_.alone = false;
  for (auto& [name, topic] : topics_) {
    needed |= topic->care.taken() && !(topic->waiting_records == 0 && EndCare(topic.get()));
    closed_.alone |= topic->care.suspected();
  }
  if (producers_.careful() == nullptr) {
    return;
  }
  if (!needed) {
    producers_.EndCareful();
  }
}

void KafkaSink::Advance(int64_t now) {
  health_.EndLost(now);
  if (producers_.CutOff(/*but_careful=*/closed_.alone)) {
    producers_.Leave();
  }
  if (producers_.Ended(in_library_, now)) {
    RetireProducers(now);
  }
  if (producers_.MayStart(now)) {
    StartProducer(now);
  }
  if (producers_.running()) {
    FindClosings(now);
  }
  if (!producers_.running()) {
    return;
  }
  // What a quota kept back goes on when it is over, too.
  const bool throttled = throttle_.TakeEnded() || throttle_.on();
  if (full_ || (throttled && waiting_records_ > 0)) {
    full_ = false;
    ReleaseAll();
  }
  if (health_.AskIfTime(now)) {
    producers_.main()->CheckConnection();
  }
  if (limits_at_ >= 0 && now >= limits_at_) {
    AskForLimits(now);
  }
  if (files_at_ >= 0 && now >= files_at_) {
    LookAtFiles(now);
  }
  if (now >= stalled_.next_at) {
    stalled_.next_at = now + kSecond;
    AskForPartitions(now);
    FindStalled(now);
    EndCareful();
  }
}

// A certificate was renewed, perhaps because the earlier one is refused. Where all connections are well the producer
// stays; once one is refused, it ends.
void KafkaSink::LookAtFiles(int64_t now) {
  files_at_ = health_.up() && now >= trouble_at_ + kTroubleMicros ? -1 : now + kSecond;
  if (producers_.files()->ChangedAndSettled()) {
    producers_.End(now);
  }
}

void KafkaSink::NoteThrottled(Producer* producer, int64_t now) {
  const int64_t throttled = producer->TakeThrottled();
  if (throttled == 0) {
    return;
  }
  throttle_.Told(throttled, now);
  if (throttle_.on()) {
    health_.Warn({ErrorClass::kDestination, "THROTTLED",
                  "its brokers throttle it: a quota of its client.id or user lets less through than comes"},
                 now + kTroubleMicros);
  }
}

// Another cluster gives its producers numbers that this one's producers may have, and acknowledges a record that has a
// number and a place in the order of another producer's as one that it had already. So nothing that a producer was told
// since it was connected there counts, and others begin, with numbers of that cluster. The worker tells people: it
// knows which one it was before this sink began.
void KafkaSink::Meet(Producer* producer, const TopicAnswer& answer, int64_t now) {
  if (answer.who) {
    producer->WhoAnswered(answer.answered ? now : now + kSecond);
  }
  if (!answer.answered) {
    return;
  }
  const bool another = !cluster_.empty() && !answer.cluster.empty() && answer.cluster != cluster_;
  cluster_ = answer.cluster.empty() ? cluster_ : answer.cluster;
  health_.SetCluster(cluster_);
  if (!another) {
    producer->Met(answer.connections, answer.losses);
    return;
  }
  for (auto& [name, topic] : topics_) {
    topic->ends.clear();
  }
  producers_.ForEach([](Producer* each) { each->Distrust(); });
  producers_.End(now);
}

void KafkaSink::AbortOpen(std::vector<std::string>* bytes, int64_t now) {
  FailStalled(bytes);
  FailAccused(bytes, now);
  for (const auto& [name, topic] : topics_) {
    for (const RecordRef& ref : topic->waiting) {
      store_.Unsent(ref.slot, ref.index);
    }
    topic->waiting.clear();
    topic->waiting_records = 0;
  }
  waiting_records_ = 0;
  store_.AbortAll([&](StoredBatch& stored) {
    gate_.Poison(stored.batch.flow, stored.batch.epoch);
    bytes->push_back(std::move(stored.batch.records));
  });
}

void KafkaSink::RetireProducers(int64_t now) {
  producers_.ForEach([this](Producer* each) {
    if (Error fatal = FatalError(each->handle()); fatal.error_class == ErrorClass::kConfig) {
      health_.SetDownByFatal(std::move(fatal));
    }
  });
  // The library may still look at bytes of records that it gave no report for.
  auto bytes = std::make_shared<std::vector<std::string>>();
  for (auto& [name, topic] : topics_) {
    topic->LineUp();
  }
  if (!producers_.leaving()) {  // which has nothing in the library: what waits goes on by the next one
    AbortOpen(bytes.get(), now);
  }
  for (auto& [name, topic] : topics_) {
    topic->Reset();
  }
  in_library_ = 0;
  full_ = false;
  throttle_.Reconnected();
  closed_.suspect.reset();
  more_ = false;
  health_.ProducerEnded();
  stalled_.asking_since = 0;
  stalled_.sending_until = 0;
  health_.SetSending(false);
  producers_.Retire(bytes, now);
  if (const Error* warning = producers_.Warning(); warning != nullptr) {
    health_.SetWarning(*warning);
  }
}

void KafkaSink::StartProducer(int64_t now) {
  if (Status status = producers_.Start(now); !status.ok()) {
    health_.SetDown(status.error(), now);
  }
  if (!producers_.running()) {
    return;
  }
  stalled_.next_at = now + kSecond;
  more_ = true;  // drain what came before the descriptor was armed
  health_.ProducerStarted(now);
  ReleaseAll();
}

}  // namespace outbox::sink::kafka
