#include "sink/kafka/kafka_checkup.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "base/count_text.h"
#include "base/monotonic.h"
#include "sink/kafka/bootstrap_check.h"
#include "sink/kafka/client_settings.h"
#include "sink/kafka/client_trouble.h"
#include "sink/kafka/cluster_question.h"
#include "sink/kafka/errors.h"
#include "sink/kafka/signals_blocked.h"

namespace outbox::sink::kafka {
namespace {

// The right to write anything at all is asked for by the library itself (InitProducerId), half a second after it began,
// and each half second after a refusal. Silence says something after a while, and so does a second refusal in a row:
// one comes from a broker that is just getting ids from the controller.
constexpr int64_t kRightsMicros = 5000 * kMilli;
constexpr int64_t kSilenceMicros = 1500 * kMilli;
constexpr int kSureRefusals = 2;
// A pause, or an outage over a night, lasts longer than this.
constexpr int64_t kShortRetentionMs = int64_t{24} * 60 * 60 * 1000;

constexpr char kNoIdHint[] =
    "Brokers get these ids from the controller: most of the controllers have to be up, and see one another and the "
    "brokers (kafka-metadata-quorum.sh --bootstrap-server ... describe --status; the brokers' logs). Where the "
    "connection is slow, or held back by a quota, a longer timeout tells more.";

class KafkaCheckup {
 public:
  KafkaCheckup(const CheckupRequest& request, const Settings& settings, rd_kafka_t* handle)
      : request_(request),
        settings_(settings),
        handle_(handle),
        trouble_(settings, handle, static_cast<int>(request.timeout_ms)),
        by_(MonotonicMicros() + request.timeout_ms * kMilli) {}

  std::vector<CheckupRow> Run() {
    const int timeout_ms = static_cast<int>(request_.timeout_ms);
    const auto question = ClusterQuestion::Ask(handle_, request_.topic, timeout_ms);
    BootstrapCheck bootstrap(settings_, timeout_ms);
    ClusterAnswer answer;
    while (!question->Wait(10 * kMilli, &answer) && MonotonicMicros() < GiveUpAt(answer)) {
      trouble_.Take();
    }
    trouble_.Take();
    if (!answer.came) {
      const Error& error = trouble_.error();
      Fail("connection", error.ok() ? Error{ErrorClass::kDestination, "TIMEOUT",
                                            "no broker answered in " + std::to_string(timeout_ms) + " ms"}
                                    : error);
      return std::move(rows_);
    }
    Ok("connection",
       CountText(answer.brokers, "broker") + ", asked: " + answer.from + "; librdkafka " + rd_kafka_version_str());
    const size_t connected = rows_.size();
    if (request_.topic.empty() || Topic(answer)) {
      Rights(!request_.topic.empty());
    }
    const std::vector<CheckupRow> addresses = bootstrap.Run(by_);
    rows_.insert(rows_.begin() + static_cast<ptrdiff_t>(connected), addresses.begin(), addresses.end());
    return std::move(rows_);
  }

 private:
  void Ok(const char* check, std::string detail, std::string hint = "") {
    rows_.push_back({check, {}, std::move(detail), std::move(hint)});
  }
  void Fail(const char* check, Error error, std::string hint) {
    rows_.push_back({check, std::move(error), "", std::move(hint)});
  }
  void Fail(const char* check, const Error& error) { Fail(check, error, ConnectionHint(error)); }

  // A leader that has not answered, and of which nothing was said, may answer still.
  int64_t GiveUpAt(const ClusterAnswer& answer) const {
    if (!answer.came) {
      const int64_t give_up = trouble_.GiveUpAt(settings_.addresses);
      return give_up == 0 ? by_ : std::min(by_, give_up);
    }
    int64_t last = 0;
    for (const PartitionLeader& leader : answer.leaders) {
      const ClientTrouble::Said* said = leader.answers() ? nullptr : trouble_.Of(leader.address);
      if (!leader.answers() && said == nullptr) {
        return by_;
      }
      last = said == nullptr ? last : std::max(last, said->at);
    }
    return last == 0 ? by_ : std::min(by_, last + kOthersMicros);
  }

  // Returns whether the topic can be written to, as far as that can be told.
  bool Topic(const ClusterAnswer& answer) {
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
           "A broker is down, or a log directory of it is offline (full, broken: see its log); kafka-topics.sh "
           "--describe says whose partitions have none: bring it back, or have another of their replicas lead them. "
           "Or the topic was made a moment ago. Where a broker came back with an empty log directory, only an unclean "
           "election gives its partitions a leader (kafka-leader-election.sh --election-type unclean), and what nobody "
           "else had of them is lost.");
      return false;
    }
    const bool led = Leaders(answer);
    const bool in_sync = InSync(answer);
    if (!led || !in_sync) {
      return false;
    }
    const std::string leader = answer.leaders.empty() ? "none" : answer.leaders.front().address;
    Ok("topic", "topic \"" + name + "\" has " + CountText(answer.partitions, "partition") + ", led by " + leader +
                    (answer.partitions == 1 ? "" : " and others") +
                    (answer.untried == 0 ? "" : "; " + std::to_string(answer.untried) + " leaders were not tried"));
    LookAtSettings(answer.settings);
    return true;
  }

  void LookAtSettings(const TopicSettings& settings) {
    if (settings.forbidden) {
      Ok("settings", "the settings of topic \"" + request_.topic + "\" may not be read",
         "What is too old or too large for the topic is then found out by trying, event by event: kafka-acls.sh --add "
         "--allow-principal User:... --operation DescribeConfigs --topic " +
             request_.topic + ".");
    }
    if (settings.own_time && settings.retention_ms >= 0 && settings.retention_ms < kShortRetentionMs) {
      Ok("retention",
         "topic \"" + request_.topic +
             "\" keeps events for less than a day, counted from their own time (retention.ms=" +
             std::to_string(settings.retention_ms) + ", message.timestamp.type=CreateTime)",
         "One that is older when it comes, after a pause or an outage or by replay(), is deleted at the topic's next "
         "look: message.timestamp.type=LogAppendTime counts from when it came; or raise retention.ms.");
    }
  }

  // Each leader has its row. Returns whether all answer.
  bool Leaders(const ClusterAnswer& answer) {
    bool all = true;
    for (const PartitionLeader& leader : answer.leaders) {
      if (leader.answers()) {
        continue;
      }
      all = false;
      const std::string who = "the leader of partition " + std::to_string(leader.partition) + ", " + leader.address;
      const ClientTrouble::Said* said = trouble_.Of(leader.address);
      if (said != nullptr && said->error.error_class == ErrorClass::kConfig) {
        Error error = said->error;
        error.message = who + ", lets nobody in: " + error.message;
        Fail("topic", error);
        continue;
      }
      // The code of the question itself says little: _BAD_MSG where the leader's name does not resolve, and _TIMED_OUT
      // where nothing listens there.
      Error error = MakeError(leader.code, ErrorClass::kDestination, who + ", does not answer");
      if (said != nullptr) {
        error = said->error;
        error.message = who + ", does not answer: " + error.message;
      }
      std::string hint = LeaderHint(error.code);
      Fail("topic", std::move(error), std::move(hint));
    }
    return all;
  }

  // Whether no partition has too few. Brokers ask for no more replicas in sync than there are, from Kafka 3.7 on.
  bool InSync(const ClusterAnswer& answer) {
    const int wanted = answer.settings.min_in_sync;
    const std::string setting = "min.insync.replicas is " + std::to_string(wanted);
    const auto told = [this](int partition, int replicas) {
      return "partition " + std::to_string(partition) + " of topic \"" + request_.topic + "\" has " +
             CountText(replicas, "replica");
    };
    const PartitionReplicas* few = nullptr;
    for (const PartitionReplicas& each : answer.replicas) {
      if (each.in_sync < std::min(wanted, each.all)) {
        Fail("topic",
             MakeError(RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, ErrorClass::kTopic,
                       told(each.partition, each.in_sync) + " in sync, and " + setting + ": it takes nothing"),
             "Bring the brokers of its other replicas back (kafka-topics.sh --describe names them), or lower the "
             "topic's min.insync.replicas.");
        return false;
      }
      few = few == nullptr && each.all < wanted ? &each : few;
    }
    if (few != nullptr) {
      Ok("replicas", told(few->partition, few->all) + ", and " + setting,
         "From Kafka 3.7 on brokers ask for no more replicas in sync than there are; older ones take nothing for such "
         "a topic: give it more replicas, or lower its min.insync.replicas.");
    }
    return true;
  }

  void Rights(bool topic) {
    const int64_t began = MonotonicMicros();
    const int64_t until = std::min(by_, began + kRightsMicros);
    while (trouble_.fatal().ok() && !trouble_.may_write() && MonotonicMicros() < until) {
      trouble_.Take(10);
    }
    if (!trouble_.fatal().ok()) {
      Fail("rights", trouble_.fatal(),
           "The user may write to no topic at all: kafka-acls.sh --add --allow-principal User:... --operation Write "
           "--topic "
           "...; brokers before 2.8 also want IdempotentWrite on the cluster.");
    } else if (!trouble_.may_write() &&
               (trouble_.refusals() >= kSureRefusals || MonotonicMicros() >= began + kSilenceMicros)) {
      Fail("producer id",
           {ErrorClass::kDestination, "NO_PRODUCER_ID",
            "the brokers gave no producer id, without which nothing is sent" +
                (trouble_.no_id().empty() ? "" : " (" + trouble_.no_id() + ")") + ": is there an active controller?"},
           kNoIdHint);
    } else if (topic) {
      Ok("rights", std::string("the topic may be seen") +
                       (trouble_.may_write() ? ", and something may be written; whether this topic may is told with "
                                             : "; whether it may be written to is told with ") +
                       "its first event");
    }
  }

  const CheckupRequest& request_;
  const Settings& settings_;
  rd_kafka_t* const handle_;
  ClientTrouble trouble_;
  const int64_t by_;
  std::vector<CheckupRow> rows_;
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
  rd_kafka_conf_set(conf, "statistics.interval.ms", "100", text, sizeof text);      // see ClientTrouble::may_write()
  rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_LOG | RD_KAFKA_EVENT_STATS);
  rd_kafka_t* handle = nullptr;
  {
    const SignalsBlocked blocked;
    handle = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
  }
  if (handle == nullptr) {
    rd_kafka_conf_destroy(conf);
    const std::string why = settings.WhyNone(text);
    const std::string hint = NamedFiles::Hint(why);
    return {{"options",
             {ErrorClass::kConfig, "CLIENT", why},
             "",
             hint.empty() ? "docs/options.md says what the options mean." : hint}};
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
