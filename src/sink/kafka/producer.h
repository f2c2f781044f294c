// One librdkafka producer instance and its event queue [-]. A failed report ends an instance; the sink makes another.
//
// All calls come from the sink's thread; only the partitioner may run in a thread of the library. Destroying the
// library's handle can block for seconds (a resolver that sleeps), so a thread of its own does that: see
// DestroyInThread().
#pragma once

#include <librdkafka/rdkafka.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "sink/kafka/client_settings.h"
#include "sink/kafka/closings.h"
#include "sink/kafka/connections.h"
#include "sink/kafka/metadata.h"

namespace outbox::sink::kafka {

// Reads a field that the library filled from what a broker sent: codes may be outside of the enumeration's range, where
// reading them as its type is undefined.
inline int CodeOf(const rd_kafka_resp_err_t& field) {
  int code = 0;
  static_assert(sizeof code == sizeof field);
  std::memcpy(&code, &field, sizeof code);
  return code;
}

// What a record carries through the library: its batch's slot, its index there, and the partition that the partitioner
// is to choose (plus one; 0: by key), also where there is none of that number (`fixed`: the record asks for it).
struct Opaque {
  uint32_t slot = 0;   // 24 bits
  uint32_t index = 0;  // 23 bits
  uint16_t hint = 0;
  bool fixed = false;

  void* Pack() const {
    return std::bit_cast<void*>((uint64_t{slot} << 40) | (uint64_t{index} << 17) | (fixed ? uint64_t{1} << 16 : 0) |
                                uint64_t{hint});
  }
  static Opaque Unpack(const void* packed) {
    const auto bits = std::bit_cast<uint64_t>(packed);
    return {static_cast<uint32_t>(bits >> 40), static_cast<uint32_t>(bits >> 17) & 0x7fffff,
            static_cast<uint16_t>(bits), (bits >> 16 & 1) != 0};
  }
};
inline constexpr uint32_t kMaxSlots = 1u << 24;
inline constexpr uint32_t kMaxBatchRecords = 1u << 23;
inline constexpr int32_t kMaxHint = 0xfffe;  // partitions below can be given as a hint

// The partition of a record: by key as the settings say, at random without one.
int32_t ChoosePartition(const TopicLink& link, std::string_view key, int32_t partitions);

class Producer {
 public:
  // Starts the library. `event_fd` is an eventfd that is written when events come; the caller's, and outlives this.
  // `gapless`: a refused batch ends it; otherwise it goes on with the next.
  static Status Make(const Settings& settings, int event_fd, bool gapless, std::unique_ptr<Producer>* producer);
  ~Producer();  // may block: see DestroyInThread
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;

  rd_kafka_t* handle() const { return handle_; }
  // The next event or nullptr; the caller destroys it.
  rd_kafka_event_t* NextEvent() { return rd_kafka_queue_poll(queue_, 0); }

  // No more events are signalled: the eventfd may be closed after.
  void Mute();

  // Owned by the producer. nullptr when the library refuses the name.
  TopicLink* OpenTopic(const std::string& name, const Settings& settings, Topic* topic);

  // For questions about topics of this producer; never nullptr.
  MetadataThread* metadata() const { return metadata_.get(); }

  // Asks whether any broker is there; the answer comes by the metadata thread.
  void CheckConnection() { metadata_->CheckConnection(links_.empty() ? nullptr : links_.front().get()); }

  // --- which cluster it is connected to
  // No connection was begun since the cluster was found to be the one that it has to be. Until it is, a report of
  // success proves nothing, and is kept.
  bool Known() const { return known_ == connections_.begun(); }
  // Asks for that, unless it is being asked.
  void AskWho(int64_t now);
  int64_t ask_who_at() const { return Known() || asked_who_ ? -1 : ask_who_at_; }  // -1: never
  // AskWho() is answered, or is not: it may be asked again at `next`.
  void WhoAnswered(int64_t next);
  // That cluster has answered a question that was asked when so many connections had been begun, and these had been
  // lost when it was answered.
  void Met(uint64_t connections, uint64_t losses);
  // It is connected to another cluster: no report of it proves anything any more.
  void Distrust() { trusted_ = false; }
  bool trusted() const { return trusted_; }
  // It has met its cluster and lost all connections since: what it finds there may be another one with the same id.
  // What was lost before were addresses that hang up.
  bool cut_off() const { return met_ && connections_.losses() > losses_before_; }
  // See Connections.
  bool Sending() { return connections_.Sending(); }
  int64_t TakeThrottled() { return connections_.TakeThrottled(); }
  // What a broker said when it gave no producer id, without which nothing is sent; "": none has said so since then.
  std::string no_id(int64_t since) const { return no_id_at_ >= since ? no_id_ : ""; }
  void NoteNoId(std::string said, int64_t now) {
    no_id_ = std::move(said);
    no_id_at_ = now;
  }
  // Connections that brokers have closed in the midst of a request.
  void NoteClosings(int64_t now) { closings_.Note(connections_.closings(), now); }
  const Closings& closings() const { return closings_; }
  // A delivery report, how many messages it has, and the first of them, which has been taken from it.
  struct Report {
    rd_kafka_event_t* event = nullptr;
    size_t count = 0;
    const rd_kafka_message_t* first = nullptr;
  };
  // Owns the event from then on.
  void Keep(const Report& report) { kept_.push_back(report); }
  // The next report that was kept, or none; the caller destroys the event.
  Report TakeKept();

  // Asks for the settings of a topic; the answer comes as an event (DESCRIBECONFIGS_RESULT) whose opaque is `topic`.
  void DescribeTopic(const std::string& name, Topic* topic, int timeout_ms);

 private:
  explicit Producer(int event_fd) : connections_(event_fd) {}

  Connections connections_;
  rd_kafka_t* handle_ = nullptr;
  rd_kafka_queue_t* queue_ = nullptr;
  std::vector<std::unique_ptr<TopicLink>> links_;
  std::unique_ptr<MetadataThread> metadata_;
  std::deque<Report> kept_;
  Closings closings_;
  std::string no_id_;
  int64_t no_id_at_ = 0;
  uint64_t known_ = 0;
  bool trusted_ = true;
  bool met_ = false;
  uint64_t losses_before_ = 0;  // met_: when it was met for the first time
  bool asked_who_ = false;
  int64_t ask_who_at_ = 0;
};

// Destroys the producer, then lets go of `after`; in a thread of its own, because the first may take seconds.
void DestroyInThread(std::unique_ptr<Producer> producer, std::shared_ptr<void> after);

// How a sink comes by its producers and is rid of them. A test has an eye on both.
struct ProducerLife {
  std::function<Status(const Settings&, int event_fd, bool gapless, std::unique_ptr<Producer>*)> make = Producer::Make;
  std::function<void(std::unique_ptr<Producer>, std::shared_ptr<void> after)> destroy = DestroyInThread;
};

}  // namespace outbox::sink::kafka
