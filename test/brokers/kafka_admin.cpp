// Topics of a test broker, through librdkafka's admin calls: what Kafka's own tools do, without a JVM per call.
//
//   kafka_admin BOOTSTRAP ready                            exit 0 once the broker answers and takes topics (waits 1 s)
//   kafka_admin BOOTSTRAP create NAME PARTITIONS [k=v...]  returns when every partition has a leader
//   kafka_admin BOOTSTRAP alter NAME PARTITIONS [k=v...]   more partitions; the k=v replace the topic's own settings
//   kafka_admin BOOTSTRAP delete NAME                      returns when the topic is gone from the metadata
//   kafka_admin BOOTSTRAP offsets NAME                     one line per partition: partition, first, next offset
//   kafka_admin BOOTSTRAP deny NAME                        nobody may write to the topic, everybody may read it
//   kafka_admin BOOTSTRAP hide NAME                        nobody may ask for the topic's settings, all else is allowed
//   kafka_admin BOOTSTRAP allow NAME                       takes either back
//   kafka_admin BOOTSTRAP grant NAME USER                  this user may do everything with the topic
//   kafka_admin BOOTSTRAP show NAME USER                   this user may see the topic, and not write to it
//   kafka_admin BOOTSTRAP revoke NAME USER                 takes either back
//   kafka_admin BOOTSTRAP leaders NAME                     one line per partition: partition, leader (-1: none), number
//   of
//                                                          replicas, of replicas in sync
#include <librdkafka/rdkafka.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int kTimeoutMs = 15000;

[[noreturn]] void Die(const char* what, const char* why) {
  fprintf(stderr, "kafka_admin: %s: %s\n", what, why);
  exit(1);
}

rd_kafka_t* Connect(const char* bootstrap) {
  char text[512];
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap, text, sizeof text);
  rd_kafka_conf_set(conf, "log_level", "0", text, sizeof text);
  rd_kafka_conf_set(conf, "allow.auto.create.topics", "false", text, sizeof text);
  rd_kafka_conf_set(conf, "reconnect.backoff.ms", "20", text, sizeof text);
  rd_kafka_conf_set(conf, "reconnect.backoff.max.ms", "100", text, sizeof text);
  rd_kafka_t* client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
  if (client == nullptr) Die("client", text);
  return client;
}

// The number of partitions that have a leader; 0 when the topic does not exist, -1 when the broker does not answer.
int LedPartitions(rd_kafka_t* client, const char* name, int* total) {
  const rd_kafka_metadata_t* metadata = nullptr;
  rd_kafka_topic_t* topic = rd_kafka_topic_new(client, name, nullptr);
  const rd_kafka_resp_err_t error = rd_kafka_metadata(client, 0, topic, &metadata, kTimeoutMs);
  rd_kafka_topic_destroy(topic);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return -1;
  int led = 0;
  *total = 0;
  if (metadata->topic_cnt == 1 && metadata->topics[0].err == RD_KAFKA_RESP_ERR_NO_ERROR) {
    *total = metadata->topics[0].partition_cnt;
    for (int i = 0; i < *total; ++i) led += metadata->topics[0].partitions[i].leader >= 0;
  }
  rd_kafka_metadata_destroy(metadata);
  return led;
}

void WaitForPartitions(rd_kafka_t* client, const char* name, int wanted) {
  int total = 0;
  for (int i = 0; i < 1500; ++i) {
    const int led = LedPartitions(client, name, &total);
    if (wanted == 0 ? led == 0 && total == 0 : led >= wanted) return;
    rd_kafka_poll(client, 10);
  }
  Die(name, "the change did not show up in the metadata");
}

// Waits for the answer of an admin call and stops at the first error in it.
void Finish(rd_kafka_queue_t* queue, const char* what) {
  rd_kafka_event_t* event = rd_kafka_queue_poll(queue, kTimeoutMs * 2);
  if (event == nullptr) Die(what, "no answer");
  if (rd_kafka_event_error(event)) Die(what, rd_kafka_event_error_string(event));
  size_t count = 0;
  const rd_kafka_topic_result_t** topics = nullptr;
  if (const auto* made = rd_kafka_event_CreateTopics_result(event))
    topics = rd_kafka_CreateTopics_result_topics(made, &count);
  if (const auto* gone = rd_kafka_event_DeleteTopics_result(event))
    topics = rd_kafka_DeleteTopics_result_topics(gone, &count);
  if (const auto* grown = rd_kafka_event_CreatePartitions_result(event))
    topics = rd_kafka_CreatePartitions_result_topics(grown, &count);
  for (size_t i = 0; i < count; ++i) {
    if (rd_kafka_topic_result_error(topics[i])) {
      const char* text = rd_kafka_topic_result_error_string(topics[i]);
      Die(what, text ? text : rd_kafka_err2str(rd_kafka_topic_result_error(topics[i])));
    }
  }
  if (const auto* altered = rd_kafka_event_AlterConfigs_result(event)) {
    const rd_kafka_ConfigResource_t** resources = rd_kafka_AlterConfigs_result_resources(altered, &count);
    for (size_t i = 0; i < count; ++i) {
      if (rd_kafka_ConfigResource_error(resources[i])) Die(what, rd_kafka_ConfigResource_error_string(resources[i]));
    }
  }
  if (const auto* bound = rd_kafka_event_CreateAcls_result(event)) {
    const rd_kafka_acl_result_t** results = rd_kafka_CreateAcls_result_acls(bound, &count);
    for (size_t i = 0; i < count; ++i) {
      if (const rd_kafka_error_t* error = rd_kafka_acl_result_error(results[i]))
        Die(what, rd_kafka_error_string(error));
    }
  }
  if (const auto* unbound = rd_kafka_event_DeleteAcls_result(event)) {
    const rd_kafka_DeleteAcls_result_response_t** results = rd_kafka_DeleteAcls_result_responses(unbound, &count);
    for (size_t i = 0; i < count; ++i) {
      if (const rd_kafka_error_t* error = rd_kafka_DeleteAcls_result_response_error(results[i])) {
        Die(what, rd_kafka_error_string(error));
      }
    }
  }
  rd_kafka_event_destroy(event);
}

std::vector<std::pair<std::string, std::string>> Properties(int argc, char** argv, int from) {
  std::vector<std::pair<std::string, std::string>> out;
  for (int i = from; i < argc; ++i) {
    const char* equals = strchr(argv[i], '=');
    if (equals == nullptr) Die(argv[i], "expected property=value");
    out.emplace_back(std::string(argv[i], static_cast<size_t>(equals - argv[i])), equals + 1);
  }
  return out;
}

void Create(rd_kafka_t* client, rd_kafka_queue_t* queue, int argc, char** argv) {
  char text[512];
  const int partitions = atoi(argv[4]);
  constexpr int kBrokersDefault = -1;
  rd_kafka_NewTopic_t* topic = rd_kafka_NewTopic_new(argv[3], partitions, kBrokersDefault, text, sizeof text);
  if (topic == nullptr) Die(argv[3], text);
  for (const auto& [name, value] : Properties(argc, argv, 5))
    rd_kafka_NewTopic_set_config(topic, name.c_str(), value.c_str());
  rd_kafka_CreateTopics(client, &topic, 1, nullptr, queue);
  Finish(queue, argv[3]);
  rd_kafka_NewTopic_destroy(topic);
  WaitForPartitions(client, argv[3], partitions);
}

void Alter(rd_kafka_t* client, rd_kafka_queue_t* queue, int argc, char** argv) {
  char text[512];
  int total = 0;
  const int partitions = atoi(argv[4]);
  LedPartitions(client, argv[3], &total);
  if (partitions > total) {
    rd_kafka_NewPartitions_t* more = rd_kafka_NewPartitions_new(argv[3], partitions, text, sizeof text);
    if (more == nullptr) Die(argv[3], text);
    rd_kafka_CreatePartitions(client, &more, 1, nullptr, queue);
    Finish(queue, argv[3]);
    rd_kafka_NewPartitions_destroy(more);
    WaitForPartitions(client, argv[3], partitions);
  }
  if (argc > 5) {
    rd_kafka_ConfigResource_t* resource = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, argv[3]);
    for (const auto& [name, value] : Properties(argc, argv, 5)) {
      rd_kafka_ConfigResource_set_config(resource, name.c_str(), value.c_str());
    }
    rd_kafka_AlterConfigs(client, &resource, 1, nullptr, queue);
    Finish(queue, argv[3]);
    rd_kafka_ConfigResource_destroy(resource);
  }
}

void Delete(rd_kafka_t* client, rd_kafka_queue_t* queue, const char* name) {
  rd_kafka_DeleteTopic_t* topic = rd_kafka_DeleteTopic_new(name);
  rd_kafka_DeleteTopics(client, &topic, 1, nullptr, queue);
  Finish(queue, name);
  rd_kafka_DeleteTopic_destroy(topic);
  WaitForPartitions(client, name, 0);
}

void Offsets(rd_kafka_t* client, const char* name) {
  int total = 0;
  if (LedPartitions(client, name, &total) <= 0) Die(name, "no such topic");
  for (int partition = 0; partition < total; ++partition) {
    int64_t low = 0, high = 0;
    const rd_kafka_resp_err_t error =
        rd_kafka_query_watermark_offsets(client, name, partition, &low, &high, kTimeoutMs);
    if (error) Die(name, rd_kafka_err2str(error));
    printf("%d %lld %lld\n", partition, static_cast<long long>(low), static_cast<long long>(high));
  }
}

// The broker must have been started with an authorizer that allows what no ACL is about. A resource with any ACL allows
// only what its ACLs do, hence two of them.
void Deny(rd_kafka_t* client, rd_kafka_queue_t* queue, const char* name, rd_kafka_AclOperation_t operation) {
  char text[512];
  rd_kafka_AclBinding_t* acls[2] = {
      rd_kafka_AclBinding_new(RD_KAFKA_RESOURCE_TOPIC, name, RD_KAFKA_RESOURCE_PATTERN_LITERAL, "User:*", "*",
                              RD_KAFKA_ACL_OPERATION_ALL, RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW, text, sizeof text),
      rd_kafka_AclBinding_new(RD_KAFKA_RESOURCE_TOPIC, name, RD_KAFKA_RESOURCE_PATTERN_LITERAL, "User:*", "*",
                              operation, RD_KAFKA_ACL_PERMISSION_TYPE_DENY, text, sizeof text)};
  if (acls[0] == nullptr || acls[1] == nullptr) Die(name, text);
  rd_kafka_CreateAcls(client, acls, 2, nullptr, queue);
  Finish(queue, name);
  rd_kafka_AclBinding_destroy_array(acls, 2);
}

// `user` nullptr: whoever the ACLs are about.
void Allow(rd_kafka_t* client, rd_kafka_queue_t* queue, const char* name, const char* user = nullptr) {
  char text[512];
  rd_kafka_AclBindingFilter_t* filter =
      rd_kafka_AclBindingFilter_new(RD_KAFKA_RESOURCE_TOPIC, name, RD_KAFKA_RESOURCE_PATTERN_LITERAL, user, nullptr,
                                    RD_KAFKA_ACL_OPERATION_ANY, RD_KAFKA_ACL_PERMISSION_TYPE_ANY, text, sizeof text);
  if (filter == nullptr) Die(name, text);
  rd_kafka_DeleteAcls(client, &filter, 1, nullptr, queue);
  Finish(queue, name);
  rd_kafka_AclBinding_destroy(filter);
}

void Grant(rd_kafka_t* client, rd_kafka_queue_t* queue, const char* name, const std::string& user,
           rd_kafka_AclOperation_t operation) {
  char text[512];
  rd_kafka_AclBinding_t* acl =
      rd_kafka_AclBinding_new(RD_KAFKA_RESOURCE_TOPIC, name, RD_KAFKA_RESOURCE_PATTERN_LITERAL, user.c_str(), "*",
                              operation, RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW, text, sizeof text);
  if (acl == nullptr) Die(name, text);
  rd_kafka_CreateAcls(client, &acl, 1, nullptr, queue);
  Finish(queue, name);
  rd_kafka_AclBinding_destroy(acl);
}

void Leaders(rd_kafka_t* client, const char* name) {
  const rd_kafka_metadata_t* metadata = nullptr;
  rd_kafka_topic_t* topic = rd_kafka_topic_new(client, name, nullptr);
  const rd_kafka_resp_err_t error = rd_kafka_metadata(client, 0, topic, &metadata, kTimeoutMs);
  if (error) Die(name, rd_kafka_err2str(error));
  for (int i = 0; metadata->topic_cnt == 1 && i < metadata->topics[0].partition_cnt; ++i) {
    const rd_kafka_metadata_partition_t& partition = metadata->topics[0].partitions[i];
    printf("%d %d %d %d\n", partition.id, partition.leader, partition.replica_cnt, partition.isr_cnt);
  }
}

// A broker can answer before it takes topics: ready means that a topic could be made (nothing is, the call validates).
int Ready(rd_kafka_t* client, rd_kafka_queue_t* queue) {
  char text[512];
  rd_kafka_NewTopic_t* topic = rd_kafka_NewTopic_new("outbox-ready-probe", 1, 1, text, sizeof text);
  rd_kafka_AdminOptions_t* options = rd_kafka_AdminOptions_new(client, RD_KAFKA_ADMIN_OP_CREATETOPICS);
  rd_kafka_AdminOptions_set_validate_only(options, 1, text, sizeof text);
  rd_kafka_AdminOptions_set_request_timeout(options, 1000, text, sizeof text);
  rd_kafka_CreateTopics(client, &topic, 1, options, queue);
  rd_kafka_event_t* event = rd_kafka_queue_poll(queue, 1500);
  const auto* result = event ? rd_kafka_event_CreateTopics_result(event) : nullptr;
  size_t count = 0;
  const rd_kafka_topic_result_t** topics = result ? rd_kafka_CreateTopics_result_topics(result, &count) : nullptr;
  return count == 1 && rd_kafka_topic_result_error(topics[0]) == RD_KAFKA_RESP_ERR_NO_ERROR ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3)
    Die("usage", "BOOTSTRAP ready|create|alter|delete|offsets|leaders|deny|hide|allow|grant|show|revoke ...");
  const std::string command = argv[2];
  rd_kafka_t* client = Connect(argv[1]);
  rd_kafka_queue_t* queue = rd_kafka_queue_new(client);
  if (command == "ready") {
    _exit(Ready(client, queue));
  } else if (command == "create" && argc >= 5) {
    Create(client, queue, argc, argv);
  } else if (command == "alter" && argc >= 5) {
    Alter(client, queue, argc, argv);
  } else if (command == "delete" && argc == 4) {
    Delete(client, queue, argv[3]);
  } else if (command == "offsets" && argc == 4) {
    Offsets(client, argv[3]);
  } else if (command == "deny" && argc == 4) {
    Deny(client, queue, argv[3], RD_KAFKA_ACL_OPERATION_WRITE);
  } else if (command == "hide" && argc == 4) {
    Deny(client, queue, argv[3], RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS);
  } else if (command == "allow" && argc == 4) {
    Allow(client, queue, argv[3]);
  } else if (command == "grant" && argc == 5) {
    Grant(client, queue, argv[3], std::string("User:") + argv[4], RD_KAFKA_ACL_OPERATION_ALL);
  } else if (command == "show" && argc == 5) {
    Grant(client, queue, argv[3], std::string("User:") + argv[4], RD_KAFKA_ACL_OPERATION_DESCRIBE);
  } else if (command == "revoke" && argc == 5) {
    Allow(client, queue, argv[3], (std::string("User:") + argv[4]).c_str());
  } else if (command == "leaders" && argc == 4) {
    Leaders(client, argv[3]);
  } else {
    Die(argv[2], "unknown command or missing arguments");
  }
  fflush(nullptr);
  _exit(0);
}
