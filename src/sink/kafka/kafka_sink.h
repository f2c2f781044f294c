// The Kafka sink [-]: Sink over librdkafka's idempotent producer. README.md in this folder tells the rules of order.
//
// - A delivery report is the only proof of delivery.
// - A record that the library or a missing topic refuses before anything is sent fails its own flow only.
// - A record that a broker refuses ends the producer: purge what is queued, wait for what is in flight, destroy, make a
//   new one. The culprit is reported kFailed with its class, all other open records of every flow kAborted. Its topic
//   goes by a second producer for a while, one record at a time in each partition, which a refusal does not end.
// - While brokers are merely away, records stay in the library (it resends them in order, without duplicates) and
//   health() says down.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "sink/flow_gate.h"
#include "sink/kafka/batch_store.h"
#include "sink/kafka/client_settings.h"
#include "sink/kafka/closings.h"
#include "sink/kafka/destination_health.h"
#include "sink/kafka/errors.h"
#include "sink/kafka/producers.h"
#include "sink/kafka/stalled.h"
#include "sink/kafka/throttle.h"
#include "sink/kafka/topic.h"
#include "sink/record.h"
#include "sink/sink.h"

namespace outbox::sink::kafka {

class KafkaSink : public Sink {
 public:
  // Fails (class kConfig) when the library refuses an option.
  static Status Make(const SinkConfig& config, std::unique_ptr<Sink>* sink);
  static Status Make(Settings settings, std::unique_ptr<Sink>* sink, ProducerLife life = {});
  ~KafkaSink() override;
  KafkaSink(const KafkaSink&) = delete;
  KafkaSink& operator=(const KafkaSink&) = delete;

  void Submit(Batch batch) override;
  void Poll(std::vector<Result>* results) override;
  void AppendWaits(std::vector<WaitSpec>* waits) override;
  const Health& health() const override { return health_.told(); }
  void TakePlaces(std::vector<Place>* places) override { store_.TakePlaces(places); }
  void Close() override;

 private:
  // What became of a record that was to go into the library.
  enum class Sent : uint8_t { kYes, kLater, kFailed };

  struct RefusedRecord {
    RecordRef ref;
    int code;
  };
  // The records of one event have one topic and partition and came back together: a batch that was acknowledged or
  // refused, or what a purge brought back.
  struct Report {
    Topic* topic = nullptr;
    int32_t partition = -1;
    bool asking = false;  // it is the one that was to find out about the topic
    uint32_t count = 0;
    uint64_t bytes = 0;
    int64_t first = -1;   // the smallest offset; -1: none
    int64_t offset = -1;  // the largest; -1: none
  };

  KafkaSink(Settings settings, int event_fd, ProducerLife life)
      : settings_(std::move(settings)),
        event_fd_(event_fd),
        producers_(&settings_, event_fd, std::move(life)),
        health_(settings_.addresses),
        topics_(settings_.patience.raise) {}

  // submit.cpp: from a batch into the library.
  bool Dispatch(Topic* topic, const RecordRef& ref, const Record& record);  // false: the record's flow has failed
  bool EndCare(Topic* topic);
  bool EndDrain(Topic* topic);
  bool Outside(Topic* topic, const RecordRef& ref, const Record& record);  // false: as of Dispatch
  static Error NoSuchPartition(const Topic& topic);
  bool AskAbout(Topic* topic);
  bool OpenTopic(Topic* topic);  // false: the library refuses its name
  int32_t PartitionFor(Topic* topic, const RecordRef& ref, const Record& record);
  Sent Send(Topic* topic, int32_t number, const RecordRef& ref, const Record& record);
  rd_kafka_resp_err_t Produce(Topic* topic, int32_t partition, const Opaque& opaque, const Record& record);
  Sent NotTaken(Topic* topic, int32_t number, const RecordRef& ref, rd_kafka_resp_err_t error);
  void Refused(Topic* topic, const RecordRef& ref, int code);
  Error RefusalOf(Topic* topic, int code);
  void FailKnown(Topic* topic, const RecordRef& ref, const Record& record);
  int KnownToBeRefused(Topic* topic, const Record& record) {
    return topic->limits.Refuses(record, settings_.compresses, now_, wall_ms_);
  }
  bool Keyless(const Topic& topic, const Record& record) const;  // it may go to any partition
  // Whether its partition has no leader, and is known to take nothing for that.
  bool TakesNothing(const Topic& topic, const Record& record) const;
  void Wait(Topic* topic, std::deque<RecordRef>* queue, const RecordRef& ref, bool front = false);
  RecordRef Next(Topic* topic, std::deque<RecordRef>* queue);
  bool Read(const RecordRef& ref, Record* record);
  bool Held() { return full_ || !throttle_.MaySend(in_library_ == 0, now_); }  // nothing goes into the library now
  bool ReleaseFirst(Topic* topic, Partition* partition);
  void Release(Topic* topic, Partition* partition);
  void ReleaseOldest();
  void ReleaseTopic(Topic* topic);
  void ReleaseAll();
  void FailFlow(const RecordRef& ref, Error error);

  // reports.cpp: events of the library.
  void ServeEvents(Producer* producer, int64_t now);
  bool Reports(Producer* producer, rd_kafka_event_t* event, int64_t now);  // false: the event is kept for later
  void ServeKept(Producer* producer, int64_t now);
  void ServeReport(const Producer& producer, const Producer::Report& told, int64_t now);
  ErrorClass Classify(Topic* topic, int32_t partition, const ErrorRule& rule, const RefusedRecord* record);
  Error ErrorOf(const Topic& topic, int code, ErrorClass error_class);
  void ReadReport(const Producer& producer, const Producer::Report& told, const Partition& partition, Report* report);
  void Acknowledged(const Report& report, Partition* partition, int64_t now);
  void ReleaseNext(Topic* topic, Partition* partition);
  void Failed(const Report& report, int64_t now);
  void Charge(const Report& report, const RefusedRecord& record, bool culprit, int64_t now);
  void Learned(Topic* topic, int32_t at_least);
  bool RefusedAlone(const Report& report, int64_t now);
  void Trouble(Producer* producer, rd_kafka_event_t* event, int64_t now);

  // kafka_sink.cpp: what happens with the records and topics at the end of producers and the start of others.
  Producer* ProducerOf(Topic* topic);
  void EndCareful();
  void Advance(int64_t now);
  void NoteThrottled(Producer* producer, int64_t now);
  void Meet(Producer* producer, const TopicAnswer& answer, int64_t now);
  void AbortOpen(std::vector<std::string>* bytes, int64_t now);
  void RetireProducers(int64_t now);
  void StartProducer(int64_t now);
  void LookAtFiles(int64_t now);

  // limits.cpp: what topics are known to refuse.
  void WantLimits(Topic* topic, int code);
  void EndHold(Topic* topic);
  void AskForLimits(int64_t now);
  void LimitsAnswered(Topic* topic, rd_kafka_event_t* event, int64_t now);

  // stalled.cpp: topics that take nothing.
  void AskForPartitions(int64_t now);
  bool Lacks(const Topic& topic, const Record& record) const;
  bool OnlyLeaderless(const Topic& topic, int64_t since);
  void FindStalled(int64_t now);
  void FailStalled(std::vector<std::string>* bytes);
  bool AskCluster(Topic* topic);
  void TellGone(Topic* topic, size_t count, int64_t now);
  void ClusterAnswered(const TopicAnswer& answer);
  void NoteMissing(int code);

  // closings.cpp: the record at which brokers close the connection.
  bool GoesAlone(const Topic& topic);  // it waits for others of the careful producer
  void FindClosings(int64_t now);
  void Accuse(const Closings& closings, int64_t since, int64_t now);
  void FailAccused(std::vector<std::string>* bytes, int64_t now);

  const Settings settings_;
  const int event_fd_;
  Producers producers_;
  DestinationHealth health_;
  BatchStore store_;
  FlowGate gate_;
  TopicTable topics_;
  StalledSearch stalled_;
  Throttle throttle_;
  ClosedSearch closed_;
  int64_t files_at_ = -1;     // when to look whether files that the options name have changed; -1: nothing asks for it
  int64_t trouble_at_ = 0;    // the last with a connection
  int64_t doubts_until_ = 0;  // a topic was missing: of another new one the cluster is asked first
  int64_t limits_at_ = -1;    // when limits of topics are to be asked for; -1: none are wanted

  std::string cluster_;  // the id of that which answers; "": not known yet, or it has none

  uint64_t next_seq_ = 0;  // after the last record submitted
  uint32_t in_library_ = 0;
  uint32_t waiting_records_ = 0;
  bool full_ = false;  // the library's queue is: wait for reports
  bool more_ = false;  // events were left for the next Poll

  int64_t now_ = 0;  // monotonic microseconds, as of the last Submit or Poll
  int64_t wall_ms_ = 0;
  Record record_;                       // reused
  std::vector<RefusedRecord> refused_;  // reused: records of the event in hand
  std::vector<TopicAnswer> answers_;    // reused
};

}  // namespace outbox::sink::kafka
