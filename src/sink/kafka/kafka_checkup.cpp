#include "sink/kafka/kafka_checkup.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/monotonic.h"
#include "sink/kafka/client_settings.h"
#include "sink/kafka/errors.h"
#include "sink/kafka/metadata.h"
#include "sink/kafka/producer.h"
#include "sink/kafka/signals_blocked.h"
#include "sink/kafka/topic_settings.h"
#include "sink/options.h"

namespace outbox::sink::kafka {
namespace {

constexpr int64_t kMilli = 1000;
// After the first failed connection: others may work, of a name that has two addresses too.
constexpr int64_t kOthersMicros = 500 * kMilli;
// After one that the other side has closed: it says nothing of why, and the next try may.
constexpr int64_t kHungUpMicros = 3000 * kMilli;
// After the answer: the right to write anything at all is asked for by the library itself (InitProducerId).
constexpr int64_t kRefusalMicros = 150 * kMilli;

// Leaders of one topic that are tried, all at once.
constexpr size_t kMostLeaders = 16;
// For the topic's settings, which not every user may ask for.
constexpr int64_t kSettingsMicros = 2000 * kMilli;
// A pause, or an outage over a night, lasts longer than this.
constexpr int64_t kShortRetentionMs = int64_t{24} * 60 * 60 * 1000;

// A broker that leads partitions of the topic.
struct Leader {
  int32_t id = -1;
  std::string address;                      // as it is advertised
  int32_t partition = 0;                    // the first that it leads
  int code = RD_KAFKA_RESP_ERR__TIMED_OUT;  // what became of a question to it; until it is known

  // It has let us in, and has answered, whatever that was: the library's own codes are negative.
  bool answers() const {
    return code >= RD_KAFKA_RESP_ERR_NO_ERROR && code != RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED;
  }
};

// What is looked at of the topic's settings, where the user may read them.
struct Limits {
  int min_in_sync = 0;        // min.insync.replicas; 0: not known
  int64_t retention_ms = -1;  // retention.ms; negative: nothing is deleted for its age, or it is not known
  bool forbidden = false;     // it may not
  bool own_time = false;      // message.timestamp.type=CreateTime: that counts from the record's time
};

// The cluster's answer about itself and the topic.
struct Answer {
  bool came = false;  // else there was none in time
  int brokers = 0;
  std::string from;  // which of them answered
  int topic_code = 0;
  std::string alike;  // a topic beside which one that is missing cannot be made; "": none is known
  int partitions = 0;
  bool leaderless = false;
  std::vector<Leader> leaders;  // that of partition 0 first
  size_t untried = 0;           // leaders beyond those
  int32_t fewest = -1;          // the partition with the fewest replicas in sync
  int in_sync = 0;              // its replicas in sync
  Limits limits;
};

bool Missing(int topic_code) {
  return topic_code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC || topic_code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
}

// Asks in a thread, because the library's call waits, and what is wrong is often known long before its time is over.
// Shared by both; the thread may outlive the checkup.
class Question {
 public:
  static std::shared_ptr<Question> Ask(rd_kafka_t* handle, std::string topic, int timeout_ms) {
    auto question = std::make_shared<Question>();
    const SignalsBlocked blocked;
    std::thread([question, handle, topic = std::move(topic), timeout_ms] {
      question->Run(handle, topic, timeout_ms);
    }).detach();
    return question;
  }
  // Returns true when there is an answer, or will be none.
  bool Wait(int64_t micros, Answer* answer) {
    std::unique_lock lock(mutex_);
    done_.wait_for(lock, std::chrono::microseconds(micros), [this] { return over_; });
    *answer = answer_;
    return over_;
  }

 private:
  void Run(rd_kafka_t* handle, const std::string& topic, int timeout_ms) {
    const int64_t by = MonotonicMicros() + timeout_ms * kMilli;
    Answer answer;
    rd_kafka_topic_t* only = topic.empty() ? nullptr : rd_kafka_topic_new(handle, topic.c_str(), nullptr);
    const rd_kafka_metadata_t* metadata = nullptr;
    if (rd_kafka_metadata(handle, 0, only, &metadata, timeout_ms) == RD_KAFKA_RESP_ERR_NO_ERROR) {
      Read(*metadata, !topic.empty(), &answer);
      rd_kafka_metadata_destroy(metadata);
    }
    Publish([&](Answer* told) { *told = answer; });
    if (answer.came && Missing(answer.topic_code)) {
      const std::string alike = Alike(handle, topic, Left(by));
      Publish([&](Answer* told) { told->alike = alike; });
    }
    std::vector<std::thread> threads;
    for (size_t i = 0; i < answer.leaders.size(); ++i) {
      const auto ask = [this, handle, &topic, i, partition = answer.leaders[i].partition, by] {
        int64_t low = 0;
        int64_t high = 0;
        const int code =
            CodeOf(rd_kafka_query_watermark_offsets(handle, topic.c_str(), partition, &low, &high, Left(by)));
        Publish([i, code](Answer* told) { told->leaders[i].code = code; });
      };
      try {
        threads.emplace_back(ask);
      } catch (const std::system_error&) {
        ask();  // one after the other, then
      }
    }
    if (!answer.leaders.empty()) {
      const Limits limits = LimitsOf(handle, topic, std::min(by, MonotonicMicros() + kSettingsMicros));
      Publish([limits](Answer* told) { told->limits = limits; });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    Publish([this](Answer*) { over_ = true; });
  }

  static int Left(int64_t by) { return static_cast<int>(std::max<int64_t>(1, (by - MonotonicMicros()) / kMilli)); }

  template <typename Change>
  void Publish(const Change& change) {
    const std::lock_guard lock(mutex_);
    change(&answer_);
    done_.notify_one();
  }

  // The topic, of those that this user may see, whose name differs from this one in dots and underscores only.
  static std::string Alike(rd_kafka_t* handle, const std::string& topic, int timeout_ms) {
    const auto flat = [](std::string name) {
      std::replace(name.begin(), name.end(), '.', '_');
      return name;
    };
    std::string alike;
    const rd_kafka_metadata_t* all = nullptr;
    if (flat(topic).find('_') == std::string::npos ||
        rd_kafka_metadata(handle, 1, nullptr, &all, timeout_ms) != RD_KAFKA_RESP_ERR_NO_ERROR) {
      return alike;
    }
    for (int i = 0; i < all->topic_cnt; ++i) {
      const std::string name = all->topics[i].topic;
      if (name != topic && flat(name) == flat(topic) && !Missing(CodeOf(all->topics[i].err))) {
        alike = name;
      }
    }
    rd_kafka_metadata_destroy(all);
    return alike;
  }

  static Limits LimitsOf(rd_kafka_t* handle, const std::string& topic, int64_t by) {
    rd_kafka_queue_t* queue = rd_kafka_queue_new(handle);
    AskForSettings(handle, topic, Left(by), nullptr, queue);
    Limits limits;
    bool deletes = false;
    if (rd_kafka_event_t* event = rd_kafka_queue_poll(queue, Left(by)); event != nullptr) {
      const int code = ReadSettings(event, [&](std::string_view name, const char* value) {
        const std::string_view text = value;
        if (name == "min.insync.replicas") {
          limits.min_in_sync = std::atoi(value);
        } else if (name == "retention.ms") {
          limits.retention_ms = std::strtoll(value, nullptr, 10);
        } else if (name == "message.timestamp.type") {
          limits.own_time = text == "CreateTime";
        } else if (name == "cleanup.policy") {
          deletes = text.find("delete") != std::string_view::npos;
        }
      });
      limits.forbidden = code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
      rd_kafka_event_destroy(event);
    }
    rd_kafka_queue_destroy(queue);
    limits.retention_ms = deletes ? limits.retention_ms : -1;
    return limits;
  }

  // Without a topic the answer has whatever topics the client knows of, and says nothing about any.
  static void Read(const rd_kafka_metadata_t& metadata, bool with_topic, Answer* answer) {
    answer->came = true;
    answer->brokers = metadata.broker_cnt;
    answer->from = metadata.orig_broker_name == nullptr ? "" : metadata.orig_broker_name;
    if (!with_topic) {
      return;
    }
    if (metadata.topic_cnt != 1) {
      answer->topic_code = RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
      return;
    }
    const rd_kafka_metadata_topic_t& topic = metadata.topics[0];
    answer->topic_code = CodeOf(topic.err);
    answer->partitions = topic.partition_cnt;
    for (int i = 0; i < topic.partition_cnt; ++i) {
      const rd_kafka_metadata_partition_t& partition = topic.partitions[i];
      answer->leaderless |= partition.leader < 0;
      if (answer->fewest < 0 || partition.isr_cnt < answer->in_sync) {
        answer->fewest = partition.id;
        answer->in_sync = partition.isr_cnt;
      }
      if (partition.leader >= 0) {
        NoteLeader(metadata, partition, answer);
      }
    }
    std::sort(answer->leaders.begin(), answer->leaders.end(),
              [](const Leader& a, const Leader& b) { return a.partition < b.partition; });
    answer->untried = answer->leaders.size() - std::min(answer->leaders.size(), kMostLeaders);
    answer->leaders.resize(std::min(answer->leaders.size(), kMostLeaders));
  }

  static void NoteLeader(const rd_kafka_metadata_t& metadata, const rd_kafka_metadata_partition_t& partition,
                         Answer* answer) {
    for (Leader& known : answer->leaders) {
      if (known.id == partition.leader) {
        known.partition = std::min(known.partition, partition.id);
        return;
      }
    }
    answer->leaders.push_back({partition.leader, AddressOf(metadata, partition.leader), partition.id});
  }

  std::mutex mutex_;
  std::condition_variable done_;
  Answer answer_;
  bool over_ = false;
};

// Where something else than Kafka answers, the library takes the first four bytes for the length of an answer, and
// advises to allow answers that long. Returns these bytes if they are text, else "".
std::string NotKafka(const Error& error) {
  constexpr std::string_view kSays = "nvalid response size ";
  const size_t at = error.message.find(kSays);
  if (error.code != "_BAD_MSG" || at == std::string::npos) {
    return "";
  }
  const auto size = static_cast<uint32_t>(std::strtoul(error.message.c_str() + at + kSays.size(), nullptr, 10));
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(size >> shift & 0xff);
  }
  const bool text = std::all_of(bytes.begin(), bytes.end(), [](char c) { return c >= ' ' && c <= '~'; });
  return text ? bytes : "";
}

std::string ConnectionHint(const Error& error) {
  if (const std::string bytes = NotKafka(error); !bytes.empty()) {
    return bytes == "HTTP" ? "An HTTP server listens there (Kafka's REST proxy, a console, a registry?), not a broker: "
                             "bootstrap.servers wants the port of a Kafka listener, mostly 9092."
                           : "Something else than Kafka listens there: its answer begins with \"" + bytes +
                                 "\". bootstrap.servers wants the port of a Kafka listener, mostly 9092.";
  }
  if (error.code == "_RESOLVE") {
    return "Are the names in bootstrap.servers right, and known to the resolver of the database server's machine?";
  }
  if (error.code == "_AUTHENTICATION" || error.code == "SASL_AUTHENTICATION_FAILED") {
    return "sasl.mechanism and security.protocol are options of the server, sasl.username and sasl.password of the "
           "user "
           "mapping that counts: ALTER USER MAPPING ... SERVER ... OPTIONS (SET \"sasl.password\" '...').";
  }
  if (RefusesCertificate(error.message)) {
    return "The broker refuses the certificate that it is shown, or that it is shown none: ssl.certificate.pem and "
           "ssl.key.pem of the user mapping (or ssl.certificate.location and ssl.key.location of the server) have to "
           "be of "
           "an authority that the broker trusts, and valid now.";
  }
  if (error.code == "_SSL") {
    return "ssl.ca.pem has the certificates of the authority that signed the brokers'; the names in bootstrap.servers "
           "have to be those of the certificates; a listener without TLS wants another security.protocol.";
  }
  return "Does Kafka run and listen there (bootstrap.servers), no firewall between? A listener for TLS or SASL hangs "
         "up "
         "on clients without: see security.protocol.";
}

class KafkaCheckup {
 public:
  KafkaCheckup(const CheckupRequest& request, const Settings& settings, rd_kafka_t* handle)
      : request_(request),
        settings_(settings),
        handle_(handle),
        queue_(rd_kafka_queue_get_main(handle)),
        by_(MonotonicMicros() + request.timeout_ms * kMilli) {
    rd_kafka_set_log_queue(handle_, queue_);
  }

  std::vector<CheckupRow> Run() {
    const auto question = Question::Ask(handle_, request_.topic, static_cast<int>(request_.timeout_ms));
    Answer answer;
    while (!question->Wait(10 * kMilli, &answer) && MonotonicMicros() < GiveUpAt(answer)) {
      TakeEvents();
    }
    TakeEvents();
    if (!answer.came) {
      Fail("connection", trouble_.ok() ? Error{ErrorClass::kDestination, "TIMEOUT",
                                               "no broker answered in " + std::to_string(request_.timeout_ms) + " ms"}
                                       : trouble_);
      return std::move(rows_);
    }
    Ok("connection", Brokers(answer.brokers) + ", asked: " + answer.from + "; librdkafka " + rd_kafka_version_str());
    if (request_.topic.empty() || Topic(answer)) {
      Rights(!request_.topic.empty());
    }
    return std::move(rows_);
  }

 private:
  static std::string Brokers(int count) { return std::to_string(count) + (count == 1 ? " broker" : " brokers"); }

  void Ok(const char* check, std::string detail, std::string hint = "") {
    rows_.push_back({check, {}, std::move(detail), std::move(hint)});
  }
  void Fail(const char* check, Error error, std::string hint) {
    rows_.push_back({check, std::move(error), "", std::move(hint)});
  }
  void Fail(const char* check, const Error& error) { Fail(check, error, ConnectionHint(error)); }

  // Of a connection that could not be had.
  struct Said {
    int64_t at = 0;
    Error error;
  };
  // What was said last of this broker; of several, what a person has to mend. nullptr: nothing.
  const Said* SaidOf(const Leader& leader) const {
    const Said* found = nullptr;
    for (const Said& said : said_) {
      if (SpeaksOf(said.error.message, leader.address) &&
          (found == nullptr || found->error.error_class != ErrorClass::kConfig ||
           said.error.error_class == ErrorClass::kConfig)) {
        found = &said;
      }
    }
    return found;
  }

  // A leader that has not answered, and of which nothing was said, may answer still.
  int64_t GiveUpAt(const Answer& answer) const {
    if (!answer.came) {
      const int64_t patience = kOthersMicros * settings_.addresses;
      const bool unclear = hung_up_ && trouble_.error_class != ErrorClass::kConfig;
      return trouble_at_ == 0 ? by_
                              : std::min(by_, trouble_at_ + (unclear ? std::max(patience, kHungUpMicros) : patience));
    }
    int64_t last = 0;
    for (const Leader& leader : answer.leaders) {
      const Said* said = leader.answers() ? nullptr : SaidOf(leader);
      if (!leader.answers() && said == nullptr) {
        return by_;
      }
      last = said == nullptr ? last : std::max(last, said->at);
    }
    return last == 0 ? by_ : std::min(by_, last + kOthersMicros);
  }

  // Of several troubles one that a person has to mend says more than a connection that did not come about.
  void TakeEvents() {
    while (rd_kafka_event_t* event = rd_kafka_queue_poll(queue_, 0)) {
      if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR) {
        TakeError(CodeOf(event), event);
      }
      rd_kafka_event_destroy(event);
    }
  }
  static int CodeOf(rd_kafka_event_t* event) { return rd_kafka_event_error(event); }

  void TakeError(int code, rd_kafka_event_t* event) {
    const char* said = rd_kafka_event_error_string(event);
    std::string text = said == nullptr ? "" : said;
    if (code == RD_KAFKA_RESP_ERR__FATAL) {
      char why[512] = "";
      code = rd_kafka_fatal_error(handle_, why, sizeof why);
      fatal_ = MakeError(code, RuleFor(code).error_class, why);
      return;
    }
    code = EventCode(code, text);
    hung_up_ |= code == RD_KAFKA_RESP_ERR__TRANSPORT && text.find("isconnected") != std::string::npos;
    trouble_at_ = trouble_at_ == 0 ? MonotonicMicros() : trouble_at_;
    text = settings_.Explain(code, std::move(text));
    const ErrorClass error_class = EventClass(code);
    said_.push_back({MonotonicMicros(), MakeError(code, error_class, text)});
    if (code != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && (trouble_.ok() || error_class == ErrorClass::kConfig)) {
      trouble_ = MakeError(code, error_class, std::move(text));
    }
  }

  // Returns whether the topic can be written to, as far as that can be told.
  bool Topic(const Answer& answer) {
    const std::string& name = request_.topic;
    switch (answer.topic_code) {
      case RD_KAFKA_RESP_ERR_NO_ERROR:
        break;
      case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
      case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
        if (!answer.alike.empty()) {
          Fail("topic",
               MakeError(
                   answer.topic_code, ErrorClass::kTopic,
                   "topic \"" + name + "\" does not exist, and cannot be made beside topic \"" + answer.alike + "\""),
               "Kafka makes no two topics whose names differ in dots and underscores only: give the route another "
               "topic.");
          return false;
        }
        Fail("topic", MakeError(answer.topic_code, ErrorClass::kTopic, "topic \"" + name + "\" does not exist"),
             "Create it; its events wait until then. Brokers with auto.create.topics.enable make it with its first "
             "event.");
        return false;
      case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        Fail(
            "topic",
            MakeError(answer.topic_code, ErrorClass::kTopic, "topic \"" + name + "\" is forbidden to this user"),
            "Its user needs the right to write to it: kafka-acls.sh --add --allow-principal User:... --operation Write "
            "--topic " +
                name + ".");
        return false;
      default:
        Fail("topic",
             MakeError(answer.topic_code, RuleFor(answer.topic_code).error_class,
                       "topic \"" + name + "\": " + CodeText(answer.topic_code)),
             "Look at the brokers' logs.");
        return false;
    }
    if (answer.leaderless) {
      Fail("topic",
           {ErrorClass::kTopic, "LEADER_NOT_AVAILABLE", "topic \"" + name + "\" has a partition without a leader"},
           "A broker is down (kafka-topics.sh --describe says whose partitions have none: bring it back, or have "
           "another "
           "of their replicas lead them), or the topic was made a moment ago. Where a broker came back with an empty "
           "log directory, only an unclean election gives its partitions a leader (kafka-leader-election.sh "
           "--election-type unclean), and what nobody else had of them is lost.");
      return false;
    }
    const bool led = Leaders(answer);
    const bool in_sync = InSync(answer);
    if (!led || !in_sync) {
      return false;
    }
    const std::string leader = answer.leaders.empty() ? "none" : answer.leaders.front().address;
    Ok("topic", "topic \"" + name + "\" has " + std::to_string(answer.partitions) +
                    (answer.partitions == 1 ? " partition" : " partitions") + ", led by " + leader +
                    (answer.partitions == 1 ? "" : " and others") +
                    (answer.untried == 0 ? "" : "; " + std::to_string(answer.untried) + " leaders were not tried"));
    LookAtSettings(answer.limits);
    return true;
  }

  void LookAtSettings(const Limits& limits) {
    if (limits.forbidden) {
      Ok("settings", "the settings of topic \"" + request_.topic + "\" may not be read",
         "What is too old or too large for the topic is then found out by trying, event by event: kafka-acls.sh --add "
         "--allow-principal User:... --operation DescribeConfigs --topic " +
             request_.topic + ".");
    }
    if (limits.own_time && limits.retention_ms >= 0 && limits.retention_ms < kShortRetentionMs) {
      Ok("retention",
         "topic \"" + request_.topic +
             "\" keeps events for less than a day, counted from their own time (retention.ms=" +
             std::to_string(limits.retention_ms) + ", message.timestamp.type=CreateTime)",
         "One that is older when it comes, after a pause or an outage or by replay(), is deleted at the topic's next "
         "look: message.timestamp.type=LogAppendTime counts from when it came; or raise retention.ms.");
    }
  }

  // Each leader has its row. Returns whether all answer.
  bool Leaders(const Answer& answer) {
    bool all = true;
    for (const Leader& leader : answer.leaders) {
      if (leader.answers()) {
        continue;
      }
      all = false;
      const std::string who = "the leader of partition " + std::to_string(leader.partition) + ", " + leader.address;
      const Said* said = SaidOf(leader);
      if (said != nullptr && said->error.error_class == ErrorClass::kConfig) {
        Error error = said->error;
        error.message = who + ", lets nobody in: " + error.message;
        Fail("topic", error);
        continue;
      }
      Fail("topic", MakeError(leader.code, ErrorClass::kDestination, who + ", does not answer"),
           "That is the address under which the cluster says it is found (advertised.listeners of the broker); it has "
           "to be reachable from the database server, not only bootstrap.servers.");
    }
    return all;
  }

  bool InSync(const Answer& answer) {
    if (answer.fewest < 0 || answer.in_sync >= answer.limits.min_in_sync) {
      return true;
    }
    Fail("topic",
         MakeError(RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, ErrorClass::kTopic,
                   "partition " + std::to_string(answer.fewest) + " of topic \"" + request_.topic + "\" has " +
                       std::to_string(answer.in_sync) + (answer.in_sync == 1 ? " replica" : " replicas") +
                       " in sync, and min.insync.replicas is " + std::to_string(answer.limits.min_in_sync) +
                       ": it takes nothing"),
         "Bring the brokers of its other replicas back (kafka-topics.sh --describe names them), or lower the topic's "
         "min.insync.replicas.");
    return false;
  }

  void Rights(bool topic) {
    const int64_t until = std::min(by_, MonotonicMicros() + kRefusalMicros);
    while (fatal_.ok() && MonotonicMicros() < until) {
      if (rd_kafka_event_t* event = rd_kafka_queue_poll(queue_, 10)) {
        if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR) {
          TakeError(CodeOf(event), event);
        }
        rd_kafka_event_destroy(event);
      }
    }
    if (!fatal_.ok()) {
      Fail("rights", fatal_,
           "The user may write to no topic at all: kafka-acls.sh --add --allow-principal User:... --operation Write "
           "--topic "
           "...; brokers before 2.8 also want IdempotentWrite on the cluster.");
    } else if (topic) {
      Ok("rights",
         "the topic may be seen, and something may be written; whether this topic may is told with its first event");
    }
  }

  const CheckupRequest& request_;
  const Settings& settings_;
  rd_kafka_t* const handle_;
  rd_kafka_queue_t* const queue_;
  const int64_t by_;
  std::vector<CheckupRow> rows_;
  std::vector<Said> said_;
  Error trouble_;  // with connections
  int64_t trouble_at_ = 0;
  bool hung_up_ = false;
  Error fatal_;
};

// Options that the installed library does not know (they came with a later version), and the sink leaves out.
std::string LeftOut(const Options& chosen) {
  rd_kafka_conf_t* scratch = rd_kafka_conf_new();
  std::string names;
  char text[512];
  for (const auto& [name, value] : chosen) {
    if (rd_kafka_conf_set(scratch, name.c_str(), value.c_str(), text, sizeof text) == RD_KAFKA_CONF_UNKNOWN) {
      names += (names.empty() ? "" : ", ") + name;
    }
  }
  rd_kafka_conf_destroy(scratch);
  return names;
}

}  // namespace

std::vector<CheckupRow> CheckUp(const CheckupRequest& request) {
  Settings settings;
  rd_kafka_conf_t* conf = nullptr;
  Status status = MakeSettings(request.config, &settings);
  if (status.ok()) {
    status = settings.MakeConf(&conf);
  }
  if (!status.ok()) {
    return {{"options", status.error(), "", "ALTER SERVER ... OPTIONS (DROP ...), or a newer librdkafka."}};
  }
  char text[512];
  rd_kafka_conf_set(conf, "allow.auto.create.topics", "false", text, sizeof text);  // looking makes none
  rd_kafka_t* handle = nullptr;
  {
    const SignalsBlocked blocked;
    handle = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
  }
  if (handle == nullptr) {
    rd_kafka_conf_destroy(conf);
    return {{"options",
             {ErrorClass::kConfig, "CLIENT", settings.WhyNone(text)},
             "",
             "docs/options.md says what the options mean."}};
  }
  try {
    std::vector<CheckupRow> rows = KafkaCheckup(request, settings, handle).Run();
    if (const std::string names = LeftOut(settings.chosen); !names.empty()) {
      rows.insert(rows.begin(),
                  {"options",
                   {},
                   "left out: " + names + ", which librdkafka " + rd_kafka_version_str() + " does not know",
                   ""});
    }
    return rows;
  } catch (const std::system_error& error) {
    return {{"program", {ErrorClass::kInternal, "NO_THREAD", error.what()}, "", "The machine has no thread to spare."}};
  }
}

}  // namespace outbox::sink::kafka
