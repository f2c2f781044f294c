// Asks the cluster about topics in trouble, and whether any broker is there [-].
//
// The library's only call for that waits for the answer: a round trip, or for as long as a broker that hangs takes. So
// a thread makes it, one question after the other, and nothing else of the sink waits. All calls come from the sink's
// thread; the destructor may block (see Retire in producer.h).
#pragma once

#include <librdkafka/rdkafka.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sink/kafka/connections.h"
#include "sink/kafka/topic_link.h"

namespace outbox::sink::kafka {

// host:port of a broker, as it is advertised; "": the answer does not have it.
std::string AddressOf(const rd_kafka_metadata_t& metadata, int32_t broker);
// Whether a text of the library's speaks of the broker with that address: it begins with protocol://host:port/id.
bool SpeaksOf(const std::string& text, const std::string& address);

struct TopicAnswer {
  TopicLink* link = nullptr;              // nullptr: of a probe
  bool who = false;                       // nothing but the cluster was asked for
  bool answered = false;                  // false: by no broker, in time
  int code = 0;                           // what is wrong with the topic
  bool leaderless = false;                // a partition, or all of the topic, has no leader
  std::vector<std::string> leaders = {};  // their addresses, by partition; "": not known
  std::vector<bool> lacking = {};         // by partition: it has no leader
  std::vector<int> in_sync = {};          // by partition: its replicas in sync
  std::string cluster = {};               // the id of the cluster that has answered; "": it has none
  uint64_t connections = 0;               // that had been begun when it was asked
  uint64_t losses = 0;                    // of connections, before it was answered
};

class MetadataThread {
 public:
  // `event_fd` is an eventfd that is written when an answer has come.
  MetadataThread(rd_kafka_t* handle, const Connections* connections, int event_fd)
      : handle_(handle), connections_(connections), event_fd_(event_fd) {}
  ~MetadataThread();  // waits for the question that is under way
  MetadataThread(const MetadataThread&) = delete;
  MetadataThread& operator=(const MetadataThread&) = delete;

  // Each question has one answer. The link outlives this.
  void Ask(TopicLink* link) { Ask({link, link->handle, kAskMs, false}); }
  // Is any broker there? `link` may be nullptr; it spares a question about all topics that the library knows of.
  void CheckConnection(const TopicLink* link) {
    Ask({nullptr, link == nullptr ? nullptr : link->handle, kCheckMs, false});
  }
  // Which cluster is it? `link` as above. Any other answer tells as well.
  void AskWho(const TopicLink* link) { Ask({nullptr, link == nullptr ? nullptr : link->handle, kCheckMs, true}); }
  // Appends the answers that have come.
  void Take(std::vector<TopicAnswer>* answers);
  // The eventfd may be closed after.
  void Mute();

 private:
  // How long an answer may take. A producer that ends waits for it.
  static constexpr int kAskMs = 500;
  static constexpr int kCheckMs = 2000;  // may have to connect first

  struct Question {
    TopicLink* link;
    rd_kafka_topic_t* topic;
    int timeout_ms;
    bool who;
  };

  void Ask(const Question& question);
  void Run();
  TopicAnswer Look(const Question& question) const;

  rd_kafka_t* const handle_;
  const Connections* const connections_;
  std::mutex mutex_;  // of all below but the thread
  std::condition_variable wake_;
  int event_fd_;
  std::deque<Question> asked_;
  std::vector<TopicAnswer> answers_;
  bool ending_ = false;
  std::thread thread_;  // from the first question on
};

}  // namespace outbox::sink::kafka
